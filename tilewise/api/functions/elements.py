"""Operators with a function of numbers. In: the function, arrays. Out: folds, scans, selections, all pairs of elements.

`fold` and `scan` give the function NumPy scalars of one dtype, so that `a + b` is what `np.add` does; `filter` and
`outer_map` are `vectorize` on the elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewise.api.create import asarray, full
from tilewise.api.functions.native.lines import Lines
from tilewise.api.functions.native.vectorized import little, loops_in
from tilewise.api.functions.purity import Untraceable
from tilewise.api.functions.reducing import combined, scanned
from tilewise.api.functions.trace.scalar_trace import key_of, own_key, traced
from tilewise.api.functions.trace.scalar_tracer import dtype_of
from tilewise.api.functions.trace.tape import Step, Tape
from tilewise.api.functions.vectorize import vectorize
from tilewise.api.functions.warn import name_of, warn
from tilewise.api.reductions import reduce_ufunc, scan_ufunc
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.schedule import policy
from tilewise.config import current
from tilewise.errors import message
from tilewise.ir.reductions import Reduction, by_name, splits, user_reduction
from tilewise.ir.scalar import UFUNCS
from tilewise.ops import reduce
from tilewise.ops.elementwise import cast
from tilewise.ops.traits.rule import LETTERS
from tilewise.ops.user import JOINED, Opaque, opaque
from tilewise.python.refuse import Refused
from tilewise.records import dataclass


def fold(f: Callable[..., Any] | Reduction | str, x: Any, axis: int | None = 0, initial: Any = None) -> Array:
    """Reduce an axis (None: all elements) with an associative function of two numbers, or by a `Reduction`.

    Neighbours are combined pairwise, so `f` must be associative; it need not be commutative. `f` is given NumPy scalars
    of the array's dtype (or of the dtype it gives for two such), and traced: `lambda a, b: a + b` is `np.add.reduce`;
    with branches or loops it is compiled.
    A reduction is a row of the table in ir/reductions.py, by its name, or one like those.

    >>> import tilewise as tw
    >>> x = tw.arange(6.0).reshape(2, 3)
    >>> tw.fold(lambda a, b: a + b, x, axis=1)
    Array([ 3., 12.])
    >>> tw.fold(lambda a, b: a + b + a * b, tw.array([0.5, 1.0, 3.0]))
    np.float64(11.0)
    >>> tw.fold("count", x, axis=0)
    Array([1, 2, 2])
    """
    if axis is None:
        return fold(f, asarray(x).reshape(-1), 0, initial)
    if isinstance(f, Reduction | str):
        return _reduced(by_name(f) if isinstance(f, str) else f, asarray(x), axis, initial)
    way = _combiner(f, asarray(x), axis, "fold")
    none = way.x.shape[way.axis] == 0
    if none and initial is None:
        raise ValueError(f"zero-size array to fold with {name_of(f)} which has no identity. Give initial=.")
    if way.ufunc is not None:
        first = np._NoValue if initial is None else initial
        return reduce_ufunc(way.ufunc, way.x, way.axis, way.dtype, None, False, first, True)  # type: ignore[no-any-return]
    if none:
        return full((*way.x.shape[: way.axis], *way.x.shape[way.axis + 1 :]), initial, way.dtype)
    made = _apply(way, way.lines or Fold(way.tape, f, way.axis, way.dtype), "fold", False)
    return made if initial is None else _begun(way, made, way.dtype.type(initial))


def _reduced(by: Reduction, x: Any, axis: int, initial: Any) -> Array:
    """A fold by a row."""
    if initial is not None:
        raise TypeError(message(f"the reduction {by.name} begins with its identity", cure="Leave out initial="))
    axis = _axis_of(x, axis, "fold")
    policy.flush_loop([x])
    if policy.small([x]) or not rec.numeric(x.dtype):
        return rec.wrap(reduce.Fold(by, axis).numpy(np.asarray(rec.unwrap(x)))[()])  # type: ignore[no-any-return]
    node = reduce.fold(rec.as_node(x), by, axis)
    return rec.record(node, fixed=not node.shape)


def _axis_of(x: Any, axis: int, operator: str) -> int:
    if x.ndim == 0:
        raise ValueError(message(f"{operator} needs an axis", got="an array without axes"))
    return np.lib.array_utils.normalize_axis_index(axis, x.ndim)


def scan(
    f: Callable[..., Any], x: Any, axis: int = 0, *, init: Any = None, combine: Any = None, emit: Any = None
) -> Any:
    """All partial results of a fold along an axis: element i is the fold of elements 0 to i.

    With any of the options, it is all partial results of `tw.reduce(f, x, init=init, combine=combine)`, each given to
    `emit` if there is one; x may be a tuple of arrays then.

    >>> import tilewise as tw
    >>> tw.scan(lambda a, b: a + b, tw.arange(5))
    Array([ 0,  1,  3,  6, 10])
    >>> tw.scan(lambda a, b: max(a, b), tw.array([3, 1, 4, 1, 5]))
    Array([3, 3, 4, 4, 5])
    >>> tw.scan(lambda s, v: 0.5 * s + v, tw.ones(4), init=0.0, emit=lambda s: -s)
    Array([-1.   , -1.5  , -1.75 , -1.875])
    """
    if init is not None or combine is not None or emit is not None:
        return scanned(f, x if isinstance(x, tuple) else (x,), axis, init, combine, emit)
    way = _combiner(f, asarray(x), axis, "scan")
    if way.ufunc is not None:
        return scan_ufunc(way.ufunc, way.x, way.axis, way.dtype, None)
    return _apply(way, way.lines or Scan(way.tape, f, way.axis, way.dtype), "scan", True)


def filter(pred: Any, x: Any) -> Array:
    """The elements (or rows) that a predicate selects: a function of one element, or an array of booleans.

    >>> import tilewise as tw
    >>> x = tw.arange(6.0)
    >>> tw.filter(lambda v: v * v > 5, x)
    Array([3., 4., 5.])
    >>> tw.filter(x < 2, x)
    Array([0., 1.])
    """
    x = asarray(x)
    mask = vectorize(pred, otypes=[bool])(x) if callable(pred) else asarray(pred)
    if mask.dtype != np.bool_:
        raise TypeError(message("filter takes a function or an array of booleans", got=f"dtype {mask.dtype}"))
    return x[mask]  # type: ignore[no-any-return]


def outer_map(f: Callable[..., Any], x: Any, y: Any) -> Array:
    """A function of two numbers on every element of x with every element of y.

    >>> import tilewise as tw
    >>> tw.outer_map(lambda a, b: 10 * a + b, tw.arange(2), tw.arange(3))
    Array([[ 0,  1,  2],
           [10, 11, 12]])
    """
    a: Any = asarray(x)
    b: Any = asarray(y)
    return vectorize(f)(a[(..., *[None] * b.ndim)], b)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Combiner:
    """How a function of two elements is applied along an axis: as a ufunc, by its tape, compiled, or by calling it."""

    f: Any
    x: Array
    axis: int
    dtype: np.dtype[Any]
    ufunc: np.ufunc | None
    tape: Tape | None
    lines: Lines | None = None

    @property
    def pairs(self) -> Callable[[Any, Any], Any]:
        """The function on two arrays."""
        merge = None if self.lines is None else self.lines.merge
        return merge or Pairs(self.tape, self.f, self.dtype)


def _combiner(f: Any, x: Any, axis: int, operator: str) -> Combiner:
    axis = _axis_of(x, axis, operator)
    if not rec.numeric(x.dtype):
        raise TypeError(message(f"{operator} takes numbers", got=f"dtype {x.dtype}", cure="Convert x with astype"))
    try:
        tape, dtype = _steady(f, x.dtype)
        return Combiner(f, x.astype(dtype, copy=False), axis, dtype, _as_ufunc(tape, dtype), tape)
    except Untraceable as error:
        why: Untraceable | Refused = error
    if current().engine != "numpy" and (loops_in(f) or not little([x])):
        try:
            lines = combined(f, x.dtype, axis, operator == "scan")
            return Combiner(f, x.astype(lines.outs[0], copy=False), axis, lines.outs[0], None, None, lines)
        except Refused as error:
            why = error if error.line else why
    warn(operator, f, why, [x])
    return Combiner(f, x, axis, _tried(f, x), None, None)


def _steady(f: Any, dtype: np.dtype[Any]) -> tuple[Tape, np.dtype[Any]]:
    """The tape of f on the dtype that it gives again."""
    key = key_of(f)
    for _ in range(3):
        found = traced(f, (dtype, dtype), key)
        if found.tape.several or not found.sure:
            raise Untraceable("a result that is not one number of one type")
        made = dtype_of(found.kinds[0])
        if made == dtype:
            return found.tape, dtype
        dtype = np.result_type(made, dtype)
    raise Untraceable(f"a result of another dtype than its arguments ({made})")


def _as_ufunc(tape: Tape, dtype: np.dtype[Any]) -> np.ufunc | None:
    """The NumPy function that a tape is, if it is an associative one."""
    last = tape.entries[-1]
    if len(tape.entries) != 3 or tape.results != (2,) or not isinstance(last, Step) or last.args != (0, 1):
        return None
    return UFUNCS[last.fn] if splits(last.fn) and set(last.loop) == {dtype} else None


def _tried(f: Any, x: Any) -> np.dtype[Any]:
    """The dtype that the function gives for two elements."""
    if x.size == 0:
        return x.dtype  # type: ignore[no-any-return]
    first = np.asarray(rec.unwrap(x)).flat[0]
    return np.result_type(np.asarray(f(first, first)).dtype, x.dtype)


def _apply(way: Combiner, run: Fold | Scan | Lines, operator: str, kept: bool) -> Array:
    x = way.x
    policy.flush_loop([x])
    more = run.loop.captured if isinstance(run, Lines) else ()
    if policy.small([x]):
        return rec.wrap(run(rec.unwrap(x), *more)[()])  # type: ignore[no-any-return]
    own = LETTERS[: x.ndim]
    along = own[way.axis]
    term = own if kept else own.replace(along, JOINED)
    out = own.replace(along, JOINED if kept else "")
    shape = x.shape if kept else (*x.shape[: way.axis], *x.shape[way.axis + 1 :])
    key = (operator, own_key(way.f, run), way.axis, way.dtype.str)
    text = f"{operator} with {name_of(way.f)}"
    accum = user_reduction(text, key, way.pairs) if operator == "fold" else None
    op = Opaque(run, key, f"{term}->{out}", accum, text)
    node = opaque(op, (cast(rec.as_node(x), way.dtype),), shape, way.dtype)
    return rec.record(node, fixed=not shape)


def _begun(way: Combiner, made: Array, initial: Any) -> Array:
    """What a fold comes to that begins with a value: blocks contribute without it, so that it counts once."""
    run = Begin(way.pairs, way.dtype, initial)
    if type(made) is not Array or policy.small([made]):
        return rec.wrap(run(rec.unwrap(made)))  # type: ignore[no-any-return]
    own, key = LETTERS[: made.ndim], ("begin", own_key(way.f, run), way.dtype.str, repr(initial))
    op = Opaque(run, key, f"{own}->{own}", None, f"{name_of(way.f)} of the first value and the rest")
    node = opaque(op, (rec.as_node(made),), made.shape, way.dtype)
    return rec.record(node, fixed=not made.shape)


@dataclass(frozen=True)
class Pairs:
    """A function of two elements, on two arrays."""

    tape: Tape | None
    f: Any
    dtype: np.dtype[Any]

    def __call__(self, a: Any, b: Any) -> Any:
        return _combine(self.tape, self.f, a, b, self.dtype)


def _combine(tape: Tape | None, f: Any, a: Any, b: Any, dtype: np.dtype[Any]) -> Any:
    """f on two arrays of one shape: its tape on whole arrays, or one call per pair."""
    if tape is not None:
        return tape.arrays((a, b))[0]
    found = np.empty(a.shape, dtype)
    flat = found.reshape(-1)
    for k, (p, q) in enumerate(zip(a.ravel(), b.ravel(), strict=True)):
        flat[k] = f(p, q)
    return found


@dataclass(frozen=True)
class Fold:
    """Pairwise reduction of an axis of a block."""

    tape: Tape | None
    f: Any
    axis: int
    dtype: np.dtype[Any]

    def __call__(self, block: Any) -> Any:
        x = np.moveaxis(np.asarray(block).astype(self.dtype, copy=False), self.axis, 0)
        while x.shape[0] > 1:
            even = x.shape[0] // 2 * 2
            made = _combine(self.tape, self.f, x[0:even:2], x[1:even:2], self.dtype)
            x = made if even == x.shape[0] else np.concatenate([made, x[even:]])
        return x[0].copy()


@dataclass(frozen=True)
class Begin:
    """A value before what others come to."""

    pairs: Callable[[Any, Any], Any]
    dtype: np.dtype[Any]
    initial: Any

    @property
    def native(self) -> bool:
        """Whether it is compiled."""
        return bool(getattr(self.pairs, "native", False))

    def __call__(self, block: Any) -> Any:
        x = np.asarray(block)
        return self.pairs(np.full(x.shape, self.initial, self.dtype), x)


@dataclass(frozen=True)
class Scan:
    """Running reduction along an axis of a block."""

    tape: Tape | None
    f: Any
    axis: int
    dtype: np.dtype[Any]

    def __call__(self, block: Any) -> Any:
        x = np.moveaxis(np.asarray(block).astype(self.dtype, copy=False), self.axis, 0)
        out = x.copy()
        n, rest = x.shape[0], math.prod(x.shape[1:])
        length = 1 if self.tape is None or rest >= n else math.isqrt(n)
        parts = n // length if length > 1 else 0
        done = 1
        if parts > 1:  # parts side by side, then what the parts before each come to
            done = parts * length
            whole = out[:done].reshape(parts, length, *x.shape[1:])
            self._along(whole.swapaxes(0, 1), 1)
            before = whole[:, -1].copy()
            self._along(before, 1)
            carried = np.broadcast_to(before[:-1, None], whole[1:].shape)
            whole[1:] = _combine(self.tape, self.f, carried, whole[1:], self.dtype)
        self._along(out, done)
        return np.ascontiguousarray(np.moveaxis(out, 0, self.axis))

    def _along(self, x: Any, first: int) -> None:
        for i in range(first, x.shape[0]):
            x[i] = _combine(self.tape, self.f, np.asarray(x[i - 1]), np.asarray(x[i]), self.dtype)
