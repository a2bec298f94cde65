"""Joining, rolling, selecting. In: NumPy's arguments. Out: Arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tilewise.api.dispatch import DIRECT, MISSED, implements
from tilewise.api.reductions import node_for
from tilewise.api.searching.nonzero import nonzero
from tilewise.api.ufuncs import general
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.arithmetic import apply_ufunc, strict_errors
from tilewise.array.assign import assign
from tilewise.array.handle import Array, meta, node_of
from tilewise.array.interop.elsewhere import exceed
from tilewise.array.schedule import policy
from tilewise.array.schedule.loop_flush import PROMOTED, SEEN
from tilewise.array.schedule.sites import spot
from tilewise.array.session import on_workers
from tilewise.config import current
from tilewise.ir.node import Node, intern
from tilewise.ir.order import by_strides, same_order
from tilewise.ops.bucket import below, bucket
from tilewise.ops.const import const
from tilewise.ops.elementwise import apply, cast
from tilewise.ops.index import Gather
from tilewise.ops.join import concat
from tilewise.ops.join import copy as copy_node
from tilewise.ops.order import sort as sorts
from tilewise.ops.periodic import roll_once

BOOL = np.dtype(bool)


def _parts(arrays: Any) -> list[Any]:
    """The operands of a join as Arrays or ndarrays."""
    if type(arrays) is Array:
        return [arrays[i] for i in range(arrays.shape[0])]
    return [a if type(a) is Array else np.asarray(rec.unwrap(a)) for a in arrays]


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Join along an axis that is there."""
    parts = _parts(arrays)
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        parts = [p.reshape(-1) for p in parts]
        axis = 0
    ndim = parts[0].ndim
    if ndim == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = normalize_axis_index(axis, ndim)
    for k, p in enumerate(parts):
        if p.ndim != ndim:
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match exactly, but along "
                f"dimension 0, the array at index 0 has {ndim} dimension(s) and the array at index {k} has {p.ndim} "
                "dimension(s)"
            )
        for i, (a, b) in enumerate(zip(parts[0].shape, p.shape, strict=True)):
            if i != axis and a != b:
                raise ValueError(
                    "all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {i}, the array at index 0 has size {a} and the array at index {k} has size {b}"
                )
    given = arrays if isinstance(arrays, list | tuple) else parts  # Python's own numbers are weak
    common = np.result_type(
        *(g if type(g) in (int, float, complex) else p.dtype for g, p in zip(given, parts, strict=True))
    )
    d = np.dtype(dtype) if dtype is not None else common
    if not rec.numeric(d) or not np.can_cast(common, d, casting):  # type: ignore[arg-type]
        return NotImplemented
    return rec.record(concat(tuple(rec.as_node(p) for p in parts), axis, d))


@implements(np.stack)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Join along a new axis."""
    parts = _parts(arrays)
    if not parts:
        raise ValueError("need at least one array to stack")
    if len({p.shape for p in parts}) != 1:
        raise ValueError("all input arrays must have the same shape")
    axis = normalize_axis_index(axis, parts[0].ndim + 1)
    key = (slice(None),) * axis + (None,)
    return concatenate([p[key] for p in parts], axis, dtype=dtype, casting=casting)


def _stacking(prepare: Any, axis: Any) -> Any:
    def recorder(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
        parts = [prepare(p) for p in _parts(tup)]
        where = axis(parts) if callable(axis) else axis
        return concatenate(parts, where, dtype=dtype, casting=casting)

    return recorder


implements(np.vstack)(_stacking(lambda p: p if p.ndim > 1 else p.reshape(1, -1), 0))
implements(np.hstack)(_stacking(lambda p: p if p.ndim else p.reshape(1), lambda ps: 0 if ps[0].ndim == 1 else 1))
implements(np.column_stack)(_stacking(lambda p: p if p.ndim > 1 else p.reshape(-1, 1), 1))


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Elements pushed along axes, re-entering at the other end."""
    if type(a) is not Array:
        return NotImplemented
    if axis is None:
        return roll(a.reshape(-1), shift, 0).reshape(a.shape)
    if type(shift) is int and type(axis) is int and a.ndim and rec.numeric(a.dtype) and not on_workers():
        node = node_of(a)
        if node.known and node.order is None:
            k = normalize_axis_index(axis, a.ndim)
            n = node.dims[k]
            s = shift % n if n else 0
            return rec.record(roll_once(node, k, s) if s else copy_node(node, None))
    shifts = np.broadcast(rec.unwrap(shift), axis)
    x = a
    for by, ax in shifts:
        k = normalize_axis_index(int(ax), a.ndim)
        n = x.shape[k]
        s = int(by) % n if n else 0
        lead = (slice(None),) * k
        if s:
            x = concatenate([x[(*lead, slice(n - s, None))], x[(*lead, slice(0, n - s))]], k)
    if x is a:
        return x.copy(order="K")
    node, want = node_of(x), by_strides(a.shape, a.strides)
    return x if same_order(node.shape, node.order, want) else rec.record(copy_node(node, want))


def _roll_large(a: Any = None, shift: Any = None, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
    """One axis of a large Array: programs on a torus roll theirs many times in each step."""
    if type(a) is not Array or type(shift) is not int or type(axis) is not int or args or kwargs:
        return MISSED
    at = spot(1)
    node = a._cell.node
    if (node is not None and node.trail & PROMOTED) or strict_errors() or on_workers():
        return MISSED
    del node  # what is held here cannot be updated in place
    if policy.flush_loop((a,), at, rolls=True):
        return MISSED
    if a._cell.node is None and meta(a).nbytes < policy.eager_limit():
        return MISSED
    node = node_of(a)
    if not node.known or node.order is not None or not rec.numeric(node.dtype) or not -a.ndim <= axis < a.ndim:
        return MISSED
    k = axis % a.ndim
    n = node.dims[k]
    s = shift % n if n else 0
    made = roll_once(node, k, s) if s else copy_node(node, None)
    for part in made.inputs if s else ():
        part.trail = part.trail or SEEN | node.trail  # what `behind` would find
    return rec.record(made, at=at)


DIRECT[np.roll] = _roll_large


@implements(np.round, np.around)
def round_(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """Rounded to decimals, as NumPy does: scaled, rounded to even, scaled back."""
    decimals = operator.index(decimals)
    if type(a) is not Array or a.dtype.kind not in "iuf" or (a.dtype.kind != "f" and decimals < 0) or a.ndim == 0:
        return NotImplemented
    if a.dtype.kind != "f":
        return a.copy(order="K")
    if decimals == 0:
        return apply_ufunc(np.rint, (a,))
    there, back = (np.multiply, np.divide) if decimals > 0 else (np.divide, np.multiply)
    scale = 10.0 ** abs(decimals)
    return apply_ufunc(back, (apply_ufunc(np.rint, (apply_ufunc(there, (a, scale)),)), scale))


@implements(np.where)
def where(condition: Any, *xy: Any) -> Any:
    """Elements of x where the condition holds, else of y."""
    if not xy:
        return nonzero(condition)
    if len(xy) != 2:
        return NotImplemented
    values = [v if type(v) is Array or isinstance(v, int | float | complex) else np.asarray(v) for v in xy]
    d = np.result_type(*(v.dtype if hasattr(v, "dtype") else v for v in values))
    if not rec.numeric(d):
        return NotImplemented
    for v in (condition, *values):
        if type(v) is Array:
            meta(v)  # asks for the lengths
    nodes = _where_nodes(condition, values, d)
    if policy.repeats(nodes):
        del nodes  # what is held here cannot be updated in place
        policy.flush()
        nodes = _where_nodes(condition, values, d)
    node = apply("where", nodes, (BOOL, d, d, d))
    return rec.record(node)


def _where_nodes(condition: Any, values: list[Any], d: np.dtype[Any]) -> tuple[Node, ...]:
    return (rec.as_node(condition), *(rec.as_node(v if hasattr(v, "dtype") else np.asarray(v, d)) for v in values))


@implements(np.clip)
def clip(a: Any, a_min: Any = np._NoValue, a_max: Any = np._NoValue, out: Any = None, *, min: Any = np._NoValue,
         max: Any = np._NoValue, **kwargs: Any) -> Any:  # fmt: skip
    """Elements limited to a range."""
    no = np._NoValue
    if (a_min is no) != (a_max is no) or (a_min is not no and (min is not no or max is not no)):
        return NotImplemented  # NumPy's complaint
    low = min if a_min is no else a_min
    high = max if a_max is no else a_max
    low, high = (None if v is no else v for v in (low, high))
    if kwargs or (low is None and high is None):
        return NotImplemented
    a = a if type(a) is Array else np.asarray(a)
    d = np.result_type(*(v.dtype if hasattr(v, "dtype") else v for v in (a, low, high) if v is not None))
    if not rec.numeric(d) or d.kind == "c":
        return NotImplemented
    x = a
    if type(a) is not Array:
        x = a.astype(d)[()] if a.ndim == 0 else a
    elif a.dtype != d:  # in the memory order of a ufunc's result, which is not astype's
        x = rec.record(apply("positive", (rec.as_node(a),), (d, d)), fixed=a._fixed)
    numbers = type(low) in (int, float) and type(high) in (int, float)
    for bound, worse, best in ((low, np.less, np.maximum), (high, np.greater, np.minimum)):
        if numbers and bound == bound and d.kind == "f":
            x = where(apply_ufunc(worse, (x, bound)), bound, x)  # as NumPy's loop for one bound: -0.0 stays
            x._fixed = x.ndim == 0
        elif bound is not None:
            x = apply_ufunc(best, (x, bound))
    return x


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> Any:
    """dst[where] = src."""
    arrays: list[Array] = []
    rec.find_arrays((dst, src, where), arrays)
    if (
        type(dst) is not Array
        or policy.small(arrays)
        or dst.dtype == BOOL
        or not all(rec.numeric(x.dtype) for x in arrays)
    ):
        return NotImplemented
    number = src._fixed and not np.can_cast(src.dtype, dst.dtype) if type(src) is Array else np.ndim(src) == 0
    if number or (src.dtype if type(src) is Array else np.asarray(src).dtype) == BOOL:
        if type(src) is int and dst.dtype.kind in "iu":
            np.array(src, dst.dtype)  # NumPy's OverflowError, if it does not fit
        src = np.asarray(rec.unwrap(src))
        if src.dtype == BOOL or not np.can_cast(src.dtype, dst.dtype, casting):  # type: ignore[arg-type]
            return NotImplemented
    elif not np.can_cast(src.dtype if type(src) is Array else np.asarray(src).dtype, dst.dtype, casting):  # type: ignore[arg-type]
        return NotImplemented
    if where is not True and np.ndim(src) > dst.ndim:
        return NotImplemented
    if where is True:
        assign(dst, src)  # a value may have more axes of length one
        return None
    general(np.positive, (src,), {"out": dst, "where": where, "casting": casting})
    return None


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Every element several times: along an axis of their own, or a selection if not all are repeated alike."""
    if type(a) is not Array or type(repeats) is Array or a.ndim == 0:
        return NotImplemented
    if axis is None:
        a, axis = a.reshape(-1), 0
    k = normalize_axis_index(axis, a.ndim)
    n, before, after = a.shape[k], a.shape[:k], a.shape[k + 1 :]
    alike = isinstance(repeats, int | np.integer) and not isinstance(repeats, bool) and repeats > 0
    if not alike or a.size * repeats * a.itemsize < current().eager_bytes:
        return take(a, np.repeat(np.arange(n), repeats), k)
    times = int(repeats)
    apart = a[(slice(None),) * (k + 1) + (None,)]
    made: Any = np.broadcast_to(apart, (*before, n, times, *after)).copy()
    return rec.record(node_of(made.reshape(*before, n * times, *after)))  # which takes the memory over


@implements(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """Elements at positions along an axis."""
    if mode != "raise" or type(a) is not Array:
        return NotImplemented
    if axis is None:
        return take(a.reshape(-1), indices, 0)
    k = normalize_axis_index(axis, a.ndim)
    index = indices if type(indices) is Array or np.ndim(indices) == 0 else np.asarray(rec.unwrap(indices))
    if getattr(index, "dtype", np.dtype(int)).kind not in "iu":
        return NotImplemented
    x = a[(*(slice(None),) * k, index)]
    if type(x) is not Array or x.ndim == 0:
        return x
    node = node_of(x)
    # A new array in C order, unlike what indexing gives: with a number, a view.
    if type(node.op) is not Gather:
        return rec.record(copy_node(node, None))
    if node.order is None:
        return x
    return rec.record(intern(replace(node.op, take=True), node.inputs, node.shape, node.dtype))


@implements(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """Elements, or rows, where a mask of just their number holds."""
    if type(a) is not Array or type(condition) is not Array or condition.dtype != BOOL or condition.ndim != 1:
        return NotImplemented
    rows = a.reshape(-1) if axis is None else a
    if axis not in (None, 0) or rows.ndim == 0 or rows.shape[0] != condition.shape[0]:
        return NotImplemented
    return rows[condition]


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """Elements where a condition holds, of arrays of one size."""
    if type(arr) is not Array or type(condition) is not Array or condition.size != arr.size:
        return NotImplemented
    mask: Any = condition
    if condition.dtype != BOOL:
        mask = mask != 0
    return arr.reshape(-1)[mask.reshape(-1)]


_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


@implements(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Sorted along an axis."""
    return _sorted(sorts.sort, a, axis, kind, order, stable)


@implements(np.argsort)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Positions that sort an axis."""
    return _sorted(sorts.argsort, a, axis, kind, order, stable)


def _sorted(by: Callable[[Node, int, Any], Node], a: Any, axis: Any, kind: Any, order: Any, stable: Any) -> Any:
    if order is not None or type(a) is not Array or kind not in _KINDS or a.ndim == 0:
        return NotImplemented
    if kind is not None and stable is not None:
        return NotImplemented  # NumPy's complaint
    if axis is None:
        a, axis = a.reshape(-1), 0
    if by is sorts.argsort and kind is None and exceed([a]):
        stable = True  # one of the orders that equal elements may have, and blocks can find it
    node = node_for(a)
    return rec.record(by(node, normalize_axis_index(axis, node.ndim), "stable" if stable else kind))


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """Counts, or sums of weights, by key. The largest key decides the length: if unknown, it is computed now."""
    if (
        type(x) is not Array
        or x.ndim != 1
        or minlength < 0
        or x.dtype.kind not in "iub"
        or x.dtype == np.uint64
        or x.size == 0
    ):
        return NotImplemented
    if weights is not None:
        dtype = weights.dtype if type(weights) is Array else np.asarray(weights).dtype
        if np.shape(weights) != x.shape or not rec.numeric(dtype) or dtype.kind == "c":
            return NotImplemented
    limit = below(node_of(x))
    length = int(minlength)
    if limit is None or limit > length:
        low, high = x.min(), x.max()
        forcing.evaluate([a._cell for a in (x, low, high)])  # in one pass, if they are still to be computed
        if int(low) < 0:
            raise ValueError("'list' argument must have no negative elements")
        length = max(int(high) + 1, length)
    values = const(np.intp(1)) if weights is None else cast(rec.as_node(weights), np.dtype(np.float64))
    return rec.record(bucket(values, node_of(x), "add", length))
