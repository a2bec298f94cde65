"""Functions without a native form, called through Python. In: a function, values. Out: values of known types.

Which types a result has is found by calling the function on small samples when the program is made (`Sample`), or is
given. When the program runs, results of other types end the call (`Surprise`), and Python makes it anew.

What is raised, and objects that have no type of their own in programs, are kept in state.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilewise.kernel.program import raised
from tilewise.kernel.program.ir import HOST, Const, Expr, HostCall, Var
from tilewise.python import memory_order, read_only
from tilewise.python.build import Array, Lazy, Opaque, Scalar, Slice, Static, Tuple, Value
from tilewise.python.host.state import LOCAL, Surprise, frame
from tilewise.python.refuse import Refused
from tilewise.python.types import LEAST, MOST, PY_INT, Arr, Num

if TYPE_CHECKING:
    from tilewise.python.host.draws import Native
    from tilewise.python.statements import Statements
from tilewise.python.arrays import elementwise
from tilewise.python.scalars import arithmetic

LEN = 2  # of all axes of samples


Fill = Callable[[Sequence[Any]], Any]  # a Python value from the numbers and arrays of a call


def called(
    lo: Statements, f: Any, args: Sequence[Value], options: dict[str, Value], line: int, *, name: str,
    kind: str = "numpy", sampled: Any = None, shown: bool = False, effect: bool = False, writes: Sequence[int] = (),
    result: Any = None, lengths: tuple[tuple[bool, int], ...] = (), native: Native | None = None, part: str = "",
    keeps: bool = False,
) -> Value:  # fmt: skip
    """f(*args, **options), by Python. `sampled`: what is called on samples instead; `result`: a sample of the result.

    `shown`: the result may show memory of arguments. `effect`: it can be called once only. `writes`: which arguments it
    changes. `lengths`: of a result that is the first argument in another shape (`new_shape`).
    `native`: how it is done without Python. `part`: it is the real or imaginary parts of a complex array. `keeps`: an
    argument that it gives back is as it was (else it is what `out` is: the place for the result).
    """
    leaves: list[Expr | str] = []
    samples: list[Any] = []
    parts = [_part(lo, v, leaves, samples, line) for v in args]
    named = {k: _part(lo, v, leaves, samples, line) for k, v in options.items()}
    if result is None:
        try:
            with np.errstate(all="ignore"), frame([v.sample for v in lo.b.objects.values()]):
                result = (sampled or f)(*[p(samples) for p in parts], **{k: p(samples) for k, p in named.items()})
        except Exception as error:
            raise Refused(f"a call of {name} ({type(error).__name__}: {error})", line) from None
    out = _Results(lo, kind, line, name)
    found = out.value(result)

    def run(values: list[Any]) -> list[Any]:
        try:
            made = f(*[p(values) for p in parts], **{k: p(values) for k, p in named.items()})
            taken = out.taken(made)
            if not shown and any(_meets(r, v) for r in taken for v in values):
                raise Surprise
            return taken
        except BaseException as error:
            raised.keep(error)
            raise

    given = result if isinstance(result, tuple) else (result,)
    shown = shown or any(_meets(r, s) for r in given for s in samples)
    written = [cast(Array, args[k]).name for k in writes]
    if not keeps:
        written += [v for v, s in zip(leaves, samples, strict=True) if isinstance(v, str) and _among(s, given)]
    inputs = [v for v in leaves if isinstance(v, str)]
    for n, r in zip(out.names, out.samples, strict=True):
        if n in lo.b.arrays:
            roots = frozenset([f"{lo.scope.prefix}{line}", *read_only.roots(r, name, line)])
            lo.b.root(n, roots.union(*(lo.b.roots[v] for v in inputs)) if shown else roots)
    fault = lo.b.fault(HOST, name, line)
    lo.b.calls[len(lo.b.host)] = memory_order.called(name, line, result, args, options)
    draw = native.draw if native is not None else None
    leaves += native.inputs if native is not None else ()
    names, kept = tuple(out.names), tuple(dict.fromkeys(written))
    lo.b.emit(HostCall(len(lo.b.host), tuple(leaves), names, fault, kept, shown, effect, lengths, draw, part))
    lo.b.host.append(run)
    return found


def _meets(x: Any, y: Any) -> bool:
    return isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and np.may_share_memory(x, y)


def _among(x: Any, several: Sequence[Any]) -> bool:
    return any(x is v for v in several)


def new_shape(args: Sequence[Value]) -> tuple[tuple[bool, int], ...]:
    """What HostCall says of a call of an array and a shape; empty where a length is no whole number of 64 bits."""
    shape = args[1].items if len(args) == 2 and isinstance(args[1], Tuple) else args[1:]
    found: list[tuple[bool, int]] = []
    given = 0
    for n in shape:
        if not isinstance(n, Scalar) or n.t.dtype != "int64":
            return ()
        fixed = isinstance(n.e, Const)
        given += not fixed
        found.append((False, int(n.e.value)) if isinstance(n.e, Const) else (True, given))
    return tuple(found) if found.count((False, -1)) < 2 else ()


def method(name: str) -> Callable[..., Any]:
    """A function that calls a method of its first argument."""
    return lambda x, *args, **options: getattr(x, name)(*args, **options)


def _part(lo: Statements, v: Value, leaves: list[Expr | str], samples: list[Any], line: int) -> Fill:
    """What gives an argument; the numbers and arrays that it takes are appended, with a sample of each."""
    at = len(leaves)
    if isinstance(v, Scalar):
        make = _maker(v.t)
        if isinstance(v.e, Const):
            fixed = make(v.e.value)
            return lambda values: fixed
        leaves.append(v.e)
        samples.append(make(_NUMBER[v.t.dtype[0]]))
        return lambda values: make(values[at])
    if isinstance(v, Lazy):
        v = elementwise.materialised(lo, v, line)
    if isinstance(v, Array):
        leaves.append(v.name)
        samples.append(_sample_array(v.t))
        return lambda values: values[at]
    if isinstance(v, Tuple):
        parts = [_part(lo, item, leaves, samples, line) for item in v.items]
        kind: Any = list if v.listed else tuple
        return lambda values: kind([p(values) for p in parts])
    if isinstance(v, Slice):
        ends = [_part(lo, Static(None) if e is None else e, leaves, samples, line) for e in (v.start, v.stop, v.step)]
        return lambda values: slice(*(p(values) for p in ends))
    if isinstance(v, Static):
        found = getattr(v.value, "python", v.value)  # of a `calls.Library`: what it is in Python
        if isinstance(found, Opaque):
            return lambda values: LOCAL.objects[found.at]
        return lambda values: found
    raise Refused("an argument that Python cannot be given", line)


_NUMBER = {"b": True, "i": 1, "u": 1, "f": 0.5, "c": 0.5 + 0j}


def _maker(t: Num) -> Callable[[Any], Any]:
    """What makes a number of its type."""
    if t.py:
        return {"int64": int, "bool": bool, "float64": float, "complex128": complex}[t.dtype]
    return np.dtype(t.dtype).type


def _sample_array(t: Arr) -> Any:
    """A small array; matrices are symmetric and have inverses."""
    if t.rank < 2:
        return np.arange(1, LEN + 1).astype(t.dtype) if t.rank else np.ones((), t.dtype)
    return (np.zeros((LEN,) * t.rank) + (np.eye(LEN) + (t.dtype != "bool"))).astype(t.dtype)


class _Results:
    """What a function gives, as values of the program; how they are found in what it gives when the program runs."""

    def __init__(self, lo: Statements, kind: str, line: int, name: str) -> None:
        self.lo, self.kind, self.line, self.name = lo, kind, line, name
        self.names: list[str] = []
        self.samples: list[Any] = []  # of each of these
        self.taken: Callable[[Any], list[Any]]

    def value(self, sample: Any) -> Value:
        found, taken = self._of(sample)

        def flat(made: Any) -> list[Any]:
            out: list[Any] = []
            taken(made, out)
            return out

        self.taken = flat
        return found

    def _of(self, sample: Any) -> tuple[Value, Callable[[Any, list[Any]], None]]:
        b = self.lo.b
        kind = type(sample)
        if sample is None:
            return Static(None), lambda made, out: None
        if isinstance(sample, tuple):
            parts = [self._of(v) for v in sample]

            def each(made: Any, out: list[Any]) -> None:
                if not isinstance(made, tuple) or len(made) != len(parts):
                    raise Surprise
                for (_, take), v in zip(parts, made, strict=True):
                    take(v, out)

            return Tuple(tuple(v for v, _ in parts)), each
        if kind is np.ndarray and sample.dtype.name in arithmetic.NATIVE_DTYPES:
            dtype, rank = sample.dtype, sample.ndim
            name = f"$a{self.line}.{b.fresh('')[1:]}"
            b.arrays[name] = (dtype.name, rank)
            self.names.append(name)
            self.samples.append(sample)

            def array(made: Any, out: list[Any]) -> None:
                if type(made) is not np.ndarray or made.dtype != dtype or made.ndim != rank:
                    raise Surprise
                out.append(made)

            return Array(Arr(dtype.name, rank, self.kind), name), array
        py = kind in (bool, int, float, complex)
        if not py and not (isinstance(sample, np.generic) and sample.dtype.name in arithmetic.NATIVE_DTYPES):
            raise Refused(f"{self.name}, which gives a {kind.__name__}", self.line)
        dtype_ = np.dtype(kind).name if py else sample.dtype.name
        t = PY_INT if kind is int else Num(py, dtype_, 0, 1) if kind is bool else Num(py, dtype_)
        name = b.fresh("h")
        b.names[name] = dtype_
        self.names.append(name)
        self.samples.append(sample)

        def number(made: Any, out: list[Any]) -> None:
            if type(made) is not kind or (kind is int and not LEAST <= made <= MOST):
                raise Surprise
            out.append(made if py else made.item())

        return Scalar(t, Var(name, dtype_)), number
