"""Reductions. In: NumPy's arguments. Out: Arrays; composed from ufunc reductions exactly as NumPy composes them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from tilewise.api.dispatch import NAMED, QUICK, attempt, implements, into
from tilewise.array import record as rec
from tilewise.array.arithmetic import EXTREMES, strict_errors
from tilewise.array.fallback import announce_whole
from tilewise.array.handle import Array, node_of
from tilewise.array.interop import empty_slices
from tilewise.array.schedule import policy
from tilewise.array.session import on_workers
from tilewise.array.slots.functions import FUNCTIONS
from tilewise.ir.node import Length, Node, intern
from tilewise.ir.reductions import every, splits
from tilewise.ops import reduce as ops
from tilewise.ops.const import const, number
from tilewise.ops.create import full
from tilewise.ops.elementwise import apply, broadcast, cast, map_op
from tilewise.ops.segments import segments

NO = np._NoValue
BOOL = np.dtype(bool)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Normalised axes; None is all of them. Raises NumPy's AxisError."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is Array:
        axis = int(axis)  # type: ignore[call-overload]
    if ndim == 0 and axis in (0, -1):
        return ()  # as NumPy's reductions of numbers
    return tuple(sorted(normalize_axis_tuple(axis, ndim, "axis")))


def node_for(x: Any) -> Node:
    """The node of an operand, after a flush if the program repeats here."""
    if type(x) is not Array:
        return rec.as_node(x)
    node = node_of(x)
    if policy.repeats((node,)):
        del node  # what is held here cannot be updated in place
        policy.flush()
        node = node_of(x)
    return node


def accumulator(f: np.ufunc, dtype: np.dtype[Any], wanted: Any) -> np.dtype[Any]:
    """The dtype NumPy accumulates in (small integers widen for sums and products), or NumPy's own exception."""
    return _accumulator(f, dtype, None if wanted is None else rec.dtype_of(wanted))


@functools.cache
def _accumulator(f: np.ufunc, dtype: np.dtype[Any], wanted: np.dtype[Any] | None) -> np.dtype[Any]:
    return f.reduce(np.ones(2, dtype), dtype=wanted).dtype  # type: ignore[no-any-return]


def reduce_node(
    node: Node, f: np.ufunc, axis: Any, dtype: Any = None, keepdims: bool = False, initial: Any = NO, where: Any = True
) -> Node | None:
    """The node of f.reduce; None where NumPy must do it."""
    axes = axes_of(axis, node.ndim)
    acc = accumulator(f, node.dtype, dtype)
    if f not in _REDUCIBLE or not rec.numeric(acc) or (len(axes) > 1 and f not in _REORDERABLE):
        return None
    if acc.kind == "b" and f in (np.add, np.multiply):
        return None
    if f is np.hypot and not axes:
        return None  # NumPy starts from zero, and so takes the absolute value
    first = None if initial is NO or initial is None else _first(initial, acc)
    none = initial is None or f.identity is None
    if first is None and (initial not in (NO, None) or (none and _may_be_empty(node, axes))):
        return None  # NumPy's rule for the first value, or its complaint
    if where is not True:
        if first is None and none:
            return None
        mask = rec.as_node(where)
        if mask.dtype != BOOL:
            return None  # NumPy's complaint
        if not node.known or not mask.known or broadcast([mask.shape, node.shape]) != node.shape:
            return None
        fill = first if f.identity is None else const(np.asarray(f.identity).astype(acc)[()])  # type: ignore[arg-type]
        assert fill is not None
        node = apply("where", (mask, node, fill), (BOOL, acc, acc, acc))
    if first is not None and f.identity is None and axes:
        if not node.known:
            return None  # perhaps of nothing
        if _may_be_empty(node, axes):
            shape = ops.reduced_shape(node.shape, axes, keepdims)
            return full(shape, first, ops.reduced_order(node, axes, keepdims))
    out = ops.reduce(node, f.__name__, axes, keepdims, acc)
    if first is not None:
        out = apply(f.__name__, (first, out), (out.dtype, out.dtype, out.dtype))
    return out


def _first(initial: Any, acc: np.dtype[Any]) -> Node | None:
    """A constant for `initial`; None where NumPy must say what becomes of it."""
    plain = {bool: "biufc", int: "iufc", float: "fc", complex: "c"}.get(type(initial), "")
    if acc.kind not in plain and getattr(initial, "dtype", None) != acc:
        return None
    value = np.array(rec.unwrap(initial), acc)  # NumPy's OverflowError
    if acc.kind in "fc" and value.ndim == 0 and value == 0 and np.signbit(value.real):
        return None  # a sum of nothing but -0.0 stays that, if it begins with it: ours begin with 0.0
    return const(value[()]) if value.ndim == 0 else None  # type: ignore[arg-type]


def _may_be_empty(node: Node, axes: tuple[int, ...]) -> bool:
    return any(node.shape[a] == 0 for a in axes if isinstance(node.shape[a], int)) or (node.size == 0 and node.known)


_REDUCIBLE = {r.ufunc: r for r in every() if r.ufunc is not None and r.ufunc.__name__ == r.name}
_REORDERABLE = {f for f, r in _REDUCIBLE.items() if r.commutative}
_LOGICAL = {f for f, r in _REDUCIBLE.items() if r.kind(np.dtype(np.intp)) == BOOL}


def reduce_ufunc(
    f: np.ufunc, array: Any, axis: Any, dtype: Any, out: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    """ufunc.reduce."""
    kwargs: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if dtype is not None:
        kwargs["dtype"] = dtype
    if initial is not NO:
        kwargs["initial"] = initial
    if where is not True:
        kwargs["where"] = where
    if out is not None:
        return into(f.reduce, (array,), kwargs, out)
    if _now(array, where):
        return rec.at_once(f.reduce, (array,), kwargs)

    def recorder(array: Any, axis: Any, keepdims: bool, dtype: Any = None, initial: Any = NO, where: Any = True) -> Any:
        node = reduce_node(node_for(array), f, axis, dtype, keepdims, initial, where)
        return NotImplemented if node is None else rec.record(node, fixed=node.shape == ())

    return attempt(recorder, f.reduce, (array,), kwargs, f"{f.__name__}.reduce")


def _now(*operands: Any) -> bool:
    """Whether NumPy does it at once: no Arrays, little to do, values that are not numbers, errors that are raised."""
    arrays: list[Array] = []
    rec.find_arrays(operands, arrays)
    return not arrays or policy.small(arrays) or strict_errors() or not all(rec.numeric(x.dtype) for x in arrays)


def scan_ufunc(f: np.ufunc, array: Any, axis: int, dtype: Any, out: Any) -> Any:
    """ufunc.accumulate."""
    kwargs: dict[str, Any] = {"axis": axis}
    if dtype is not None:
        kwargs["dtype"] = dtype
    if out is not None:
        return into(f.accumulate, (array,), kwargs, out)
    if _now(array):
        return rec.at_once(f.accumulate, (array,), kwargs)

    def recorder(array: Any, axis: Any, dtype: Any = None) -> Any:
        node = node_for(array)
        acc = rec.dtype_of(dtype) if dtype is not None else f.accumulate(np.ones(2, node.dtype)).dtype
        if f not in _REDUCIBLE or f in _LOGICAL or not rec.numeric(acc) or np.ndim(axis) or node.ndim == 0:
            return NotImplemented
        if acc != accumulator(f, node.dtype, dtype):
            return NotImplemented
        return rec.record(ops.scan(node, f.__name__, normalize_axis_index(axis, node.ndim), acc))

    return attempt(recorder, f.accumulate, (array,), kwargs, f"{f.__name__}.accumulate")


def segment_ufunc(f: np.ufunc, array: Any, indices: Any, axis: Any, dtype: Any, out: Any) -> Any:
    """ufunc.reduceat."""
    kwargs: dict[str, Any] = {"axis": axis}
    if dtype is not None:
        kwargs["dtype"] = dtype
    if out is not None:
        return into(f.reduceat, (array, indices), kwargs, out)
    if _now(array, indices):
        return rec.at_once(f.reduceat, (array, indices), kwargs)

    def recorder(array: Any, indices: Any, axis: Any, dtype: Any = None) -> Any:
        node, starts = node_for(array), rec.as_node(indices)
        acc = accumulator(f, node.dtype, dtype)
        if f not in _REDUCIBLE or f in _LOGICAL or not rec.numeric(acc) or not (node.known and starts.known):
            return NotImplemented
        if starts.dtype.kind not in "iu" or starts.ndim != 1 or node.ndim == 0:
            return NotImplemented
        a = normalize_axis_index(axis, node.ndim)
        known = isinstance(starts.value, np.ndarray)  # what lies elsewhere is looked at when it is used
        if known and (np.min(starts.value) < 0 or np.max(starts.value) >= node.shape[a]):
            return NotImplemented
        if node.ndim == 1 and not splits(f.__name__) and on_workers():
            announce_whole(f"{f.__name__}.reduceat", node.nbytes)
        return rec.record(segments(node, starts, f.__name__, a, acc))

    return attempt(recorder, f.reduceat, (array, indices), kwargs, f"{f.__name__}.reduceat")


def _simple(f: np.ufunc) -> Any:
    def recorder(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = NO,
        initial: Any = NO,
        where: Any = NO,
    ) -> Any:
        node = reduce_node(
            node_for(a),
            f,
            axis,
            dtype,
            bool(keepdims) if keepdims is not NO else False,
            initial,
            True if where is NO else where,
        )
        return NotImplemented if node is None else rec.record(node, fixed=node.shape == ())

    return recorder


def _without_dtype(f: np.ufunc) -> Any:
    def recorder(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO, initial: Any = NO, where: Any = NO
    ) -> Any:
        return _simple(f)(a, axis, None, out, keepdims, initial, where)

    return recorder


implements(np.sum)(_simple(np.add))
implements(np.prod)(_simple(np.multiply))
implements(np.max, np.amax)(_without_dtype(np.maximum))
implements(np.min, np.amin)(_without_dtype(np.minimum))


def _logical(f: np.ufunc) -> Any:
    def recorder(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO, *, where: Any = NO) -> Any:
        keep = bool(keepdims) if keepdims is not NO else False
        node = reduce_node(node_for(a), f, axis, None, keep, NO, True if where is NO else where)
        return NotImplemented if node is None else rec.record(node, fixed=node.shape == ())

    return recorder


implements(np.any)(_logical(np.logical_or))
implements(np.all)(_logical(np.logical_and))


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Elements that are not zero."""
    node = ops.reduce(cast(node_for(a), BOOL), "add", axes_of(axis, a.ndim), keepdims, np.dtype(np.intp))
    return rec.record(node, fixed=node.shape == ())


def _divide(node: Node, count: Any) -> Node:
    dtype = node.dtype
    divisor = number(count, dtype)
    if node.order is None:
        return intern(map_op("divide", dtype), (node, divisor), node.shape, dtype)
    return apply("divide", (node, divisor), (dtype, dtype, dtype))


def _mean_node(node: Node, axes: tuple[int, ...], dtype: Any, keepdims: bool) -> Node | None:
    """NumPy's mean: integers and bools in float64, float16 in float32."""
    kind = node.dtype.kind
    acc = rec.dtype_of(dtype) if dtype is not None else np.dtype(np.float64) if kind in "biu" else node.dtype
    if acc == np.float16 or acc.kind not in "fc":
        return None
    count = _elements(node, axes)
    if count == 0:
        return None
    total = ops.reduce(node, "add", axes, keepdims, acc)
    return _divide(total, count) if isinstance(count, int) else apply("divide", (total, cast(count, acc)), (acc,) * 3)


def _elements(node: Node, axes: tuple[int, ...]) -> int | Node:
    """How many elements there are along some axes: a number, or a node where masks decide, which need not be known."""
    count = 1
    numbers = []
    intp = np.dtype(np.intp)
    for a in axes:
        if isinstance(d := node.shape[a], Length) and d.value is None:
            numbers.append(ops.reduce(d.mask, "add", tuple(range(d.mask.ndim)), False, intp))
        else:
            count *= d if isinstance(d, int) else d.count()
    if not numbers or count == 0:
        return count
    if count != 1:
        numbers.append(const(np.intp(count)))
    number = numbers[0]
    for more in numbers[1:]:
        number = apply("multiply", (number, more), (intp, intp, intp))
    return number


@implements(np.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO, *, where: Any = NO) -> Any:
    """Arithmetic mean."""
    keep = keepdims is not NO and bool(keepdims)
    node = node_for(a)
    if node.ndim == 0 and axis is not None:
        normalize_axis_tuple(axis, 0, "axis")  # unlike a sum's, an axis of a number is refused
    found = None
    if where is NO or where is True:
        axes = axes_of(axis, node.ndim)
        found = _mean_node(node, axes, dtype, keep)
        if found is not None and not node.known and not on_workers():
            _watch(found, _elements(node, axes), "Mean of empty slice")
    if found is None:
        return _number(OTHERWISE[np.mean](a, axis, dtype, None, keep, where=True if where is NO else where))
    return rec.record(found, fixed=found.shape == ())


def _watch(result: Node, count: int | Node, text: str, before: tuple[str, ...] = (), ddof: int = 0) -> None:
    """Where masks decide how many elements a result is made of: NumPy's warnings if there are too few."""
    if isinstance(count, Node):
        scalars = result.ndim == 0 and np.can_cast(np.intp, result.dtype)  # else NumPy divides arrays of no axes
        last = () if 0 in result.shape else ("scalar divide" if scalars else "divide",)
        empty_slices.watch(result, count, text, (*before, *last) if last else (), ddof)


OTHERWISE: dict[Any, Any] = {}  # NumPy's code over our functions, for options without a short cut here (api/compose.py)


def _number(x: Any) -> Any:
    """A result of no axes is a number."""
    if type(x) is Array and x.ndim == 0:
        x._fixed = True
    return x


def _var_node(a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, options: tuple[Any, ...]) -> Node | None:
    """NumPy's two passes: the mean, then the mean of squared differences. None where NumPy must do it."""
    where, mean, correction = options
    if where is not NO or mean is not NO or type(a) is not Array or (correction is not NO and ddof != 0):
        return None
    ddof = correction if correction is not NO else ddof
    node = node_for(a)
    if node.ndim == 0 and axis is not None:
        normalize_axis_tuple(axis, 0, "axis")  # as for mean
    axes = axes_of(axis, node.ndim)
    others = [d for k, d in enumerate(node.shape) if k not in axes]
    if not node.known and (type(ddof) is not int or any([type(d) is Length for d in others])):
        return None
    # Without the axes it is the mean that a user asks for, too, and fits as well if they come first.
    centre = _mean_node(node, axes, dtype, axes != tuple(range(len(axes))))
    if centre is None or centre.dtype.kind == "c" or np.promote_types(node.dtype, centre.dtype) != centre.dtype:
        return None
    d = centre.dtype
    off = apply("subtract", (node, centre), (d, d, d))
    total = ops.reduce(apply("square", (off,), (d, d)), "add", axes, keepdims is not NO and bool(keepdims), d)
    count = _elements(node, axes)
    if isinstance(count, int):
        return None if count - ddof <= 0 else _divide(total, count - ddof)
    intp = np.dtype(np.intp)
    left = apply("subtract", (count, const(np.intp(ddof))), (intp, intp, intp))
    left = apply("maximum", (left, const(np.intp(0))), (intp, intp, intp))
    made = apply("divide", (total, cast(left, d)), (d, d, d))
    if not on_workers():
        _watch(made, count, "Degrees of freedom <= 0 for slice", ("divide",), ddof)
    return made


@implements(np.var)
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO, *,
    where: Any = NO, mean: Any = NO, correction: Any = NO,
) -> Any:  # fmt: skip
    """Variance."""
    node = _var_node(a, axis, dtype, ddof, keepdims, (where, mean, correction))
    if node is None:
        return _spread(np.var, a, axis, dtype, ddof, keepdims, where, mean, correction)
    return rec.record(node, fixed=node.shape == ())


def _spread(
    f: Any, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any, mean: Any, correction: Any
) -> Any:
    if correction is not NO and ddof != 0:
        return NotImplemented  # NumPy's complaint
    ddof = ddof if correction is NO else correction
    more = {k: v for k, v in (("where", where), ("mean", mean)) if v is not NO}
    return _number(OTHERWISE[f](a, axis, dtype, None, ddof, keepdims is not NO and bool(keepdims), **more))


@implements(np.std)
def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO, *,
    where: Any = NO, mean: Any = NO, correction: Any = NO,
) -> Any:  # fmt: skip
    """Standard deviation."""
    node = _var_node(a, axis, dtype, ddof, keepdims, (where, mean, correction))
    if node is None:
        return _spread(np.std, a, axis, dtype, ddof, keepdims, where, mean, correction)
    root = apply("sqrt", (node,), (node.dtype, node.dtype))
    return rec.record(root, fixed=root.shape == ())


@implements(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """The sum of a diagonal."""
    return a.diagonal(offset, axis1, axis2).sum(-1, dtype)


@implements(np.linalg.trace)
def trace_of_matrices(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sum of a diagonal of the last two axes: those of a stack of matrices."""
    return trace(x, offset, -2, -1, dtype)


def _by_name(f: np.ufunc) -> Any:
    """A sum or an extreme of an ndarray, with options by their names: what NumPy's function ends in."""
    reduce = f.reduce

    def quick(a: Any, axis: Any = None, **options: Any) -> Any:
        if "dtype" in options and f in EXTREMES:
            raise TypeError  # np.max takes none, and says so
        return reduce(a, axis, **options)

    return quick


for _function, _ufunc in ((np.sum, np.add), (np.prod, np.multiply), (np.max, np.maximum), (np.min, np.minimum)):
    NAMED[_function] = _by_name(_ufunc)


def _arg(name: str) -> Any:
    def recorder(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO) -> Any:
        node = node_for(a)
        if node.ndim == 0 or 0 in node.shape:
            return NotImplemented
        which = None if axis is None else normalize_axis_index(axis, node.ndim)
        if not node.known and not (on_workers() and type(node.shape[which or 0]) is Length):
            return NotImplemented  # workers find a position in what a mask selects without a count
        found = ops.arg(node, name, which, keepdims is not NO and bool(keepdims))
        return rec.record(found, fixed=found.shape == ())

    return recorder


implements(np.argmin)(_arg("argmin"))
implements(np.argmax)(_arg("argmax"))


def _scan(f: np.ufunc) -> Any:
    def recorder(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        if axis is None:
            if a.ndim != 1:
                a = a.reshape(-1)
            axis = 0
        node = node_for(a)
        i = normalize_axis_index(axis, node.ndim)
        return rec.record(ops.scan(node, f.__name__, i, accumulator(f, node.dtype, dtype)))

    return recorder


def _running(a: Any, *more: Any) -> Any:
    """Running sums of an ndarray: of vectors as machine code, if there is some by now."""
    code = FUNCTIONS.get("cumsum")
    found = NotImplemented if more or code is None else code(a)
    return a.cumsum(*more) if found is NotImplemented else found


QUICK[np.cumsum] = _running
implements(np.cumsum)(_scan(np.add))
implements(np.cumprod)(_scan(np.multiply))
