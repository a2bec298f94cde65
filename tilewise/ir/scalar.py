"""Scalar functions: the table of what an elementwise operator may compute. In: a name. Out: its row.

Every NumPy ufunc is a row, plus `where`, `cast`, the parts of complex numbers and the words of a float. `rarely` is a
`where` whose condition hardly ever holds. `add` adds a function that neither NumPy nor SciPy has. Reductions, and which
functions they go together with, are in reductions.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tilewise.errors import message
from tilewise.records import dataclass


@dataclass(frozen=True, eq=False)
class Scalar:
    """One scalar function: its name, number of arguments and results, and its NumPy meaning."""

    name: str
    nin: int
    nout: int
    call: Callable[..., Any]
    native: tuple[str, ...] = ()  # of an added function: dtypes, of arguments and result alike, that have native code

    def __reduce__(self) -> tuple[Any, ...]:
        return (scalar, (self.name,))


def _ufuncs() -> dict[str, np.ufunc]:
    found = {n: f for n, f in vars(np).items() if isinstance(f, np.ufunc)}  # dir(np) would load f2py and more
    return {f.__name__: f for f in found.values() if f.signature is None}


def _power(a: Any, b: Any, **options: Any) -> Any:
    """np.power; of two numbers as NumPy's scalars have it: (-inf) ** 0.5 is inf, not the nan of arrays."""
    return a[()] ** b[()] if a.ndim == b.ndim == 0 and not options else np.power(a, b, **options)


def _word(shift: int) -> Callable[..., Any]:
    """32 of the bits of a float64."""
    return lambda a: (np.asarray(a).view(np.uint64) >> np.uint64(shift)).astype(np.uint32)


UFUNCS: dict[str, np.ufunc] = _ufuncs()
TABLE: dict[str, Scalar] = {n: Scalar(n, f.nin, f.nout, f) for n, f in UFUNCS.items()}
TABLE["power"] = Scalar("power", 2, 1, _power)
TABLE["where"] = Scalar("where", 3, 1, np.where)
TABLE["rarely"] = Scalar("rarely", 3, 1, np.where)
TABLE["cast"] = Scalar("cast", 1, 1, lambda a: a)
TABLE["real"] = Scalar("real", 1, 1, np.real)
TABLE["imag"] = Scalar("imag", 1, 1, np.imag)
TABLE["low_word"] = Scalar("low_word", 1, 1, _word(0))
TABLE["high_word"] = Scalar("high_word", 1, 1, _word(32))
TABLE["clip"] = Scalar("clip", 3, 1, lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi))


def scalar(name: str) -> Scalar:
    """The row of a scalar function: NumPy's, or one of SciPy's special functions (made when first asked for).

    >>> scalar("hypot").nin
    2
    """
    found = TABLE.get(name)
    if found is None:
        f = getattr(importlib.import_module("scipy.special"), name)
        found = TABLE.setdefault(name, Scalar(name, f.nin, f.nout, f))
    return found


class Function:
    """An added function, called as NumPy's ufuncs are (without a `reduce` and its like)."""

    signature = None

    def __init__(self, name: str, call: Callable[..., Any], like: np.ufunc) -> None:
        self.__name__ = name
        self.__doc__ = call.__doc__
        self.nin, self.nout = like.nin, like.nout
        self.call = call
        self.resolve_dtypes = like.resolve_dtypes

    def same(self, call: Callable[..., Any]) -> bool:
        """Whether a function has the same code."""
        return bool(getattr(self.call, "__code__", self.call) == getattr(call, "__code__", call))

    def __call__(
        self, *args: Any, out: Any = None, where: Any = True, casting: Any = "same_kind", dtype: Any = None
    ) -> Any:
        """On NumPy's arrays and numbers."""
        kinds = [type(a) if type(a) in (int, float, complex) else np.asarray(a).dtype for a in args]
        wanted = (None,) * self.nin + (None if dtype is None else np.dtype(dtype),)
        loop = self.resolve_dtypes((*kinds, None), signature=wanted, casting=casting)
        made = self.call(*(np.asarray(a).astype(d, copy=False) for a, d in zip(args, loop, strict=False)))
        if out is None and where is True:
            return made
        out = np.empty(np.broadcast_shapes(np.shape(made), np.shape(where)), loop[-1]) if out is None else out
        np.copyto(out, made, casting=casting, where=where)
        return out


ADDED: dict[str, Scalar] = {}


def add(
    name: str, call: Callable[..., Any], like: np.ufunc, native: tuple[str, ...] = (), expensive: bool = False
) -> Scalar:
    """Add a function of elements under a name that is free, for the rest of the process.

    `call` is its meaning, on arrays of the dtypes in which `like`, a ufunc of one result, computes. `native`: the
    dtypes for which backends have code. `expensive`: it costs far more than moving its argument.
    """
    assert like.nout == 1, "a function of elements has one result"
    row = ADDED.get(name)
    if row is None and name in TABLE:
        raise ValueError(message(f"there is a function {name} already", cure="Choose another name"))
    if row is None:
        row = ADDED[name] = TABLE[name] = Scalar(name, like.nin, 1, Function(name, call, like), native)
        if expensive:
            EXPENSIVE.add(name)
    elif not row.call.same(call):  # type: ignore[attr-defined]  # a Function; plans and code know it by its name
        raise ValueError(message(f"there is another function {name}, perhaps in use", cure="Choose another name"))
    return row


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """NumPy's name of a dtype, which takes it longer to find than planning an operator does."""
    return dtype.name


# Functions that cost far more than moving their argument: a shared one is stored, not computed twice.
EXPENSIVE = set(
    "exp exp2 expm1 log log2 log10 log1p power float_power sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh "
    "arcsinh arccosh arctanh cbrt erf erfc ndtr expit logit gamma gammaln xlogy divmod hypot logaddexp logaddexp2 "
    "gcd lcm fmod remainder floor_divide".split()
)
