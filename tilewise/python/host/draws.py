"""Draws of one number that C functions give, too. In: a generator, a method and its arguments. Out: a `Native`.

Which C function a method is, and what it asks of its arguments, is as in NumPy's numpy/random/_generator.pyx and
mtrand.pyx. A method of RandomState is here only where it needs nothing but the bits: its normal numbers come in pairs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.kernel.program.ir import BOOL, INT, Const, Draw, Expr, Op
from tilewise.python.build import Opaque, Scalar, Static, Value
from tilewise.python.host import python_random
from tilewise.python.host.state import GENERATORS, LOCAL
from tilewise.python.scalars import arithmetic

if TYPE_CHECKING:
    from tilewise.python.statements import Statements

_ANY, _LEAST, _ABOVE, _RATE = "", "not negative", "positive", "rate"
_UNIFORM, _BOUNDED = "random_uniform", "random_bounded_uint64_fill"
_REQUIRED = None
# By method: the C function, and of each argument its name, what it is if it is not given, and what it must be.
_Row = tuple[str, tuple[tuple[str, float | None, str], ...]]
_PLACE_AND_SCALE = (("loc", 0.0, _ANY), ("scale", 1.0, _LEAST))
_GENERATOR: dict[str, _Row] = {
    "random": ("random_standard_uniform", ()),
    "standard_normal": ("random_standard_normal", ()),
    "normal": ("random_normal", _PLACE_AND_SCALE),
    "standard_exponential": ("random_standard_exponential", ()),
    "exponential": ("random_exponential", (("scale", 1.0, _LEAST),)),
    "standard_gamma": ("random_standard_gamma", (("shape", _REQUIRED, _LEAST),)),
    "gamma": ("random_gamma", (("shape", _REQUIRED, _LEAST), ("scale", 1.0, _LEAST))),
    "beta": ("random_beta", (("a", _REQUIRED, _ABOVE), ("b", _REQUIRED, _ABOVE))),
    "chisquare": ("random_chisquare", (("df", _REQUIRED, _ABOVE),)),
    "standard_cauchy": ("random_standard_cauchy", ()),
    "standard_t": ("random_standard_t", (("df", _REQUIRED, _ABOVE),)),
    "pareto": ("random_pareto", (("a", _REQUIRED, _ABOVE),)),
    "weibull": ("random_weibull", (("a", _REQUIRED, _LEAST),)),
    "power": ("random_power", (("a", _REQUIRED, _ABOVE),)),
    "laplace": ("random_laplace", _PLACE_AND_SCALE),
    "gumbel": ("random_gumbel", _PLACE_AND_SCALE),
    "logistic": ("random_logistic", _PLACE_AND_SCALE),
    "lognormal": ("random_lognormal", (("mean", 0.0, _ANY), ("sigma", 1.0, _LEAST))),
    "rayleigh": ("random_rayleigh", (("scale", 1.0, _LEAST),)),
    "poisson": ("random_poisson", (("lam", 1.0, _RATE),)),
}
_STATE: dict[str, _Row] = {name: ("random_standard_uniform", ()) for name in ("random", "random_sample", "rand")}
_ENDS = (("low", 0.0, _ANY), ("high", 1.0, "finite"))
_GENERATOR |= {"uniform": (_UNIFORM, _ENDS), "integers": (_BOUNDED, _ENDS)}
_STATE |= {"uniform": (_UNIFORM, _ENDS), "randint": (_BOUNDED, _ENDS)}
_NONE = Static(None)


class Native:
    """A draw by a C function: what a HostCall says of it, and the numbers that the function is given."""

    def __init__(self, draw: Draw, inputs: list[Expr]) -> None:
        self.draw, self.inputs = draw, inputs


def place(lo: Statements, found: Any) -> int:
    """Which of the functions of a program gives a generator: an object, or where one waits."""
    key = ("place", found.at) if isinstance(found, Opaque) else ("object", id(found))
    if key not in lo.b.generators:
        lo.b.generators[key] = len(lo.b.host)
        lo.b.host.append((lambda _: [LOCAL.objects[found.at]]) if isinstance(found, Opaque) else (lambda _: [found]))
    return lo.b.generators[key]


def native(lo: Statements, found: Any, name: str, args: list[Value], options: dict[str, Value]) -> Native | None:
    """found.name(*args, **options), if it is one number from a C function."""
    sample = found.sample if isinstance(found, Opaque) else found
    if not isinstance(sample, GENERATORS):
        return None
    if isinstance(sample, random.Random):
        pythons = python_random.draw(name, args, options)
        return Native(Draw(place(lo, found), *pythons[:2]), pythons[2]) if pythons is not None else None
    modern = isinstance(sample, np.random.Generator)
    row = (_GENERATOR if modern else _STATE).get(name)
    if row is None or (name == "rand" and args):
        return None
    function, parameters = row
    named = dict(zip([*(what for what, _, _ in parameters), "size"], args, strict=False)) | options
    size, closed = named.pop("size", _NONE), named.pop("endpoint", arithmetic.constant(False))
    known = {what for what, _, _ in parameters}
    if not _missing(size) or len(args) > len(parameters) + 1 or not named.keys() <= known:
        return None
    if function == _BOUNDED:
        given = _whole(named, closed, masked=not modern)
    else:
        given = [_float(named.get(what), default) for what, default, _ in parameters]
    inputs = [x for x in given if x is not None]
    if inputs != given:
        return None
    if function == _UNIFORM:
        inputs[1] = Op("subtract", "float64", (inputs[1], inputs[0]))
    needs = tuple(need for _, _, need in parameters) if function != _BOUNDED else ("",) * 4
    return Native(Draw(place(lo, found), function, needs), inputs)


def sampled(generator: Any, name: str) -> Callable[..., Any]:
    """A method for samples of arguments: whole numbers lie between ends that are apart."""
    f = getattr(generator, name)
    if isinstance(generator, random.Random):
        return python_random.sampled(name)
    if name not in ("integers", "randint"):
        return f  # type: ignore[no-any-return]

    def between(*args: Any, **options: Any) -> Any:
        for k, end in enumerate(("low", "high")):
            if len(args) > k and args[k] is not None:
                args = (*args[:k], np.multiply(args[k], 0) + k + 1, *args[k + 1 :])
            elif options.get(end) is not None:
                options[end] = np.multiply(options[end], 0) + k + 1
        return f(*args, **options)

    return between


def _missing(v: Value | None) -> bool:
    return v is None or (isinstance(v, Static) and v.value is None)


def _float(v: Value | None, default: float | None) -> Expr | None:
    """A number as a float, if it is a real one."""
    if v is None:
        return Const("float64", default) if default is not None else None
    if not isinstance(v, Scalar) or v.t.dtype[0] == "c":
        return None
    return arithmetic.cast(v.e, "float64")


def _whole(named: dict[str, Value], closed: Value, *, masked: bool) -> list[Expr | None]:
    """From low up to high, or up to low if there is no high; whether that is included; how numbers are found."""
    low, high = named.get("low"), named.get("high")
    if _missing(high):
        low, high = arithmetic.constant(0), low
    ends = [v.e if isinstance(v, Scalar) and v.t.dtype == INT else None for v in (low, high)]
    last = closed.e if isinstance(closed, Scalar) and isinstance(closed.e, Const) and closed.t.dtype == BOOL else None
    return [*ends, last, Const(BOOL, masked)]
