"""Which functions and methods are called through Python. In: names, values. Out: values; None: not one of them.

Only those are here whose results have types that follow from the types of the arguments.
"""

from __future__ import annotations

import functools
import operator
import random
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.kernel.program.ir import Const, Draw
from tilewise.python.build import Array, Lazy, Opaque, Scalar, Static, Tuple, Value
from tilewise.python.refuse import Refused

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python.arrays import elementwise
from tilewise.python.host import calling, draws, state

# What may show memory of its argument.
_SHOWN = frozenset(
    "reshape ravel swapaxes moveaxis rollaxis expand_dims atleast_1d atleast_2d atleast_3d broadcast_to diagonal "
    "flip fliplr flipud rot90 transpose squeeze asarray ascontiguousarray asfortranarray real imag".split()
)
# What may give an argument back as it was; others that give one back have written it.
_KEEPS = _SHOWN | frozenset("array astype conj conjugate diff einsum matrix_power meshgrid".split())
_FUNCTIONS = _SHOWN | frozenset(
    "diag sort argsort lexsort partition argpartition searchsorted cumsum cumprod nancumsum diff ediff1d gradient roll "
    "concatenate hstack vstack dstack column_stack stack append insert delete repeat tile pad tril triu tri vander "
    "kron tensordot einsum inner cross trace outer dot vdot matmul convolve correlate interp polyval polyfit "
    "trapezoid unique bincount histogram histogram2d digitize median percentile quantile average std var ptp cov "
    "corrcoef sum prod mean min max amin amax any all argmin argmax count_nonzero nonzero flatnonzero argwhere "
    "where clip nanmin nanmax nansum nanprod nanmean nanstd nanvar nanmedian nanargmin nanargmax nan_to_num isclose "
    "allclose array_equal isin union1d intersect1d setdiff1d meshgrid indices logspace geomspace linspace arange "
    "take take_along_axis choose select compress extract round around fix copysign eye identity full full_like "
    "array copy zeros ones empty zeros_like ones_like empty_like diagflat tril_indices triu_indices diag_indices "
    "unravel_index ravel_multi_index divmod modf frexp iscomplexobj isrealobj array_equiv shape size ndim hanning "
    "hamming sinc i0 unwrap angle cumulative_sum".split()
)
_LINALG = frozenset(
    "norm det inv solve cholesky qr svd svdvals eigh eigvalsh pinv lstsq matrix_power matrix_rank slogdet cond trace "
    "cross outer matmul vecdot multi_dot tensorsolve tensorinv".split()
)
_METHODS = frozenset(
    "reshape ravel flatten swapaxes squeeze diagonal transpose std var cumsum cumprod argsort argpartition round "
    "repeat trace nonzero take searchsorted sum prod mean min max any all argmin argmax dot copy clip astype conj "
    "conjugate choose compress".split()
)
_OVERWRITES = frozenset("median percentile quantile nanmedian nanpercentile nanquantile".split())
_IN_PLACE = frozenset("sort partition fill".split())
# Of generators: those that change an argument, which comes first, or that are no numbers.
_SHUFFLES = frozenset(["shuffle"])


def python_of(kind: str, name: str) -> Any:
    """NumPy's function of a name; ours have the same."""
    return functools.reduce(getattr, name.split("."), np)


def of_numpy(
    lo: Statements, name: str, kind: str, args: list[Value], options: dict[str, Value], line: int
) -> Value | None:
    """A function of NumPy's namespace."""
    space, _, last = name.rpartition(".")
    if space == "random":
        return _random(lo, last, kind, args, options, line)
    if isinstance(getattr(np, space, None), np.ufunc):
        return _of_ufunc(lo, name, args, options, line)
    allowed = {"": _FUNCTIONS, "linalg": _LINALG, "fft": frozenset(dir(np.fft))}.get(space)
    known = allowed is not None and last in allowed
    if not known and not (not space and isinstance(getattr(np, last, None), np.ufunc)):
        return None
    kind = "tilewise" if kind == "tilewise" or any(map(_ours, args)) else "numpy"
    f = python_of(kind, name)
    return calling.called(
        lo, f, args, options, line, name=f"np.{name}", kind=kind, shown=last in _SHOWN and not space,
        result=_shaped(last, args, options) if not space else None, keeps=_keeps(last, options),
        writes=_written(lo, last, args, options, line),
        lengths=calling.new_shape(args) if name == "reshape" and not options else (),
    )  # fmt: skip


def _of_ufunc(lo: Statements, name: str, args: list[Value], options: dict[str, Value], line: int) -> Value:
    """np.add.accumulate(...), np.add.at(...) and their like."""
    f, last = python_of("numpy", name), name.rpartition(".")[2]

    def sampled(*given: Any, **named: Any) -> Any:
        if last == "at":
            return None
        return f(given[0], given[1] * 0, *given[2:], **named) if last == "reduceat" else f(*given, **named)

    if last == "at" and not (args and isinstance(args[0], Array)):
        raise Refused(f"np.{name} of something that is no array", line)
    writes = [0] if last == "at" else []
    return calling.called(lo, f, args, options, line, name=f"np.{name}", sampled=sampled, writes=writes)


def _ours(v: Value) -> bool:
    if isinstance(v, Tuple):
        return any(map(_ours, v.items))
    return isinstance(v, Array | Lazy) and v.t.kind == "tilewise"


def _shaped(name: str, args: list[Value], options: dict[str, Value]) -> Any:
    """A sample of the result where its number of axes hangs on a shape that is given."""
    if name not in ("reshape", "broadcast_to") or not isinstance(args[0], Array | Lazy):
        return None
    shape = options.get("shape") or (args[1] if len(args) == 2 else Tuple(tuple(args[1:])))
    if isinstance(shape, Scalar):
        shape = Tuple((shape,))
    if not isinstance(shape, Tuple) or not all(isinstance(n, Scalar) for n in shape.items):
        return None
    made = np.empty((1,) * len(shape.items), args[0].t.dtype)
    made.flags.writeable = name != "broadcast_to"
    return made


def _keeps(name: str, options: dict[str, Value]) -> bool:
    return name in _KEEPS and "out" not in options


def _written(lo: Statements, name: str, args: list[Value], options: dict[str, Value], line: int) -> list[int]:
    """Which arguments a function changes that it does not give back, or not always."""
    flags = [v for v in args[2:] if isinstance(v, Scalar) and v.t.dtype == "bool"]
    if name in _OVERWRITES and (flags or "overwrite_input" in options):
        raise Refused(f"np.{name} with overwrite_input", line, "Leave it out")
    if name != "nan_to_num" or not (len(args) > 1 or "copy" in options):
        return []
    copy = args[1] if len(args) > 1 else options["copy"]
    if isinstance(copy, Scalar) and isinstance(copy.e, Const):
        copies = bool(copy.e.value)
    else:
        raise Refused(f"np.{name} with a copy that is not known before", line)
    if copies or not isinstance(args[0], Array | Lazy):
        return []
    args[0] = elementwise.materialised(lo, args[0], line)
    return [0]


def method(
    lo: Statements, base: Array | Lazy, name: str, args: list[Value], options: dict[str, Value], line: int
) -> Value | None:
    """A method of an array."""
    given: list[Value] = [base, *args]
    if name in _IN_PLACE:
        held = elementwise.materialised(lo, base, line)
        return calling.called(
            lo, calling.method(name), [held, *args], options, line, name=f"ndarray.{name}", writes=[0]
        )
    if name not in _METHODS:
        return None
    return calling.called(
        lo, calling.method(name), given, options, line, name=f"ndarray.{name}", kind=base.t.kind,
        shown=name in _SHOWN, result=_shaped(name, given, options), keeps=_keeps(name, options),
        lengths=calling.new_shape(given) if name == "reshape" and not options else (),
    )  # fmt: skip


def _random(
    lo: Statements, name: str, kind: str, args: list[Value], options: dict[str, Value], line: int
) -> Value | None:
    """np.random.name(...): the stream that everybody shares, or a generator of its own."""
    if name in ("default_rng", "RandomState"):
        return generator(lo, getattr(np.random, name), args, options, line)
    if kind == "tilewise" or not hasattr(np.random.RandomState, name):
        return None
    f, sample = getattr(np.random, name), draws.sampled(np.random.RandomState(0), name)
    native = draws.native(lo, getattr(f, "__self__", None), name, args, options)
    return _drawn(lo, f, sample, f"np.random.{name}", args, options, line, 0, native)


def _drawn(
    lo: Statements, f: Any, sample: Any, name: str, args: list[Value], options: dict[str, Value], line: int, first: int,
    native: draws.Native | None,
) -> Value:  # fmt: skip
    writes: list[int] = []
    if name.rpartition(".")[2] in _SHUFFLES:
        writes, target = [first], args[first]
        if isinstance(target, Lazy):
            args = [*args[:first], elementwise.materialised(lo, target, line), *args[first + 1 :]]
        elif not isinstance(target, Array):
            raise Refused(f"{name} of something that is no array", line)
    return calling.called(
        lo, f, args, options, line, name=name, sampled=sample, effect=True, writes=writes, native=native
    )


def generator(lo: Statements, make: Any, args: list[Value], options: dict[str, Value], line: int) -> Value:
    """A generator that is made inside: it gets a place in the table of the call."""
    name = make.__name__
    place = lo.b.object((lo.scope.prefix, line, name), make(0))

    def store(*given: Any, **named: Any) -> None:
        state.keep_object(place.at, make(*given, **named))

    anew = draws.Native(Draw(draws.place(lo, place)), [])
    calling.called(lo, store, args, options, line, name=name, sampled=lambda *a, **k: None, native=anew)
    return Static(place)


def of_object(
    lo: Statements, found: Any, name: str, args: list[Value], options: dict[str, Value], line: int
) -> Value | None:
    """A method of a generator of random numbers."""
    sample = found.sample if isinstance(found, Opaque) else found
    if not isinstance(sample, state.GENERATORS) or not hasattr(sample, name):
        return None
    makers: list[Any] = [np.random.default_rng, np.random.RandomState, random.Random]
    sample = next(make(0) for make, k in zip(makers, state.GENERATORS, strict=True) if isinstance(sample, k))

    def fresh(_: Any, *given: Any, **named: Any) -> Any:
        return draws.sampled(sample, name)(*given, **named)

    given: list[Value] = [Static(found), *args]
    native = draws.native(lo, found, name, args, options)
    return _drawn(lo, calling.method(name), fresh, name, given, options, line, 1, native)


def operation(lo: Statements, op: str, x: Value, y: Value, line: int) -> Value | None:
    """x op y, of arrays and NumPy's numbers."""
    several = isinstance(x, Array | Lazy) or isinstance(y, Array | Lazy)
    numpys = any(isinstance(v, Scalar) and not v.t.py for v in (x, y))
    if not (several or numpys) or not all(isinstance(v, Scalar | Array | Lazy) for v in (x, y)):
        return None
    kind = "tilewise" if _ours(x) or _ours(y) else "numpy"
    return calling.called(lo, _OPERATORS[op], [x, y], {}, line, name=op, kind=kind)


_OPERATORS: dict[str, Any] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "@": operator.matmul, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def printed(lo: Statements, args: list[Value], options: dict[str, Value], line: int) -> Value:
    """print(...)"""
    return calling.called(lo, print, args, options, line, name="print", effect=True, sampled=lambda *a, **k: None)
