"""`a[...]`: which region a subscript is. In: a value and a subscript. Out: the region, or the element, as a value.

NumPy's rules: negative indices count from the end, slices are clamped, `None` and `...` add axes, arrays of integers
and masks select. What cannot be followed is taken to be the whole region.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import (
    Expr,
    add,
    compare,
    constant,
    floor_divide,
    gather,
    greatest,
    least,
    multiply,
    remainder,
    scale,
    select,
)
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.record import Recorder
from tilewise.parfor.walk.values import Axis, Group, Val, View, objects

LONGEST_TABLE = 1_000_000  # elements of an index array that are looked at


class Slice:
    """A slice whose parts are values."""

    def __init__(self, start: Val | None, stop: Val | None, step: Val | None) -> None:
        self.start, self.stop, self.step = start, stop, step


Part = Val | Slice
UNKNOWN_PART = Val()


def wrapped(expr: Expr, length: Expr | None) -> Expr | None:
    """An index as a position: those below 0 count from the end."""
    if expr.lo >= 0:
        return expr
    if length is None:
        return None
    if expr.hi < 0:
        return add(expr, length)
    return select(compare("<", expr, constant(0)), add(expr, length), expr)


def _clamped(part: Val | None, default: Expr, length: Expr, lowest: int) -> Expr | None:
    """A bound of a slice, within lowest and the length (lowest -1 for slices that run backwards)."""
    if part is None or (part.is_known and part.known is None):
        return default
    if part.expr is None or not part.expr.integer:
        return None
    expr = wrapped(part.expr, length)
    assert expr is not None
    top = length if lowest == 0 else add(length, constant(-1))
    return greatest(least(expr, top), constant(lowest))


def sliced(axis: Axis, part: Slice) -> tuple[Expr, int, Expr] | None:
    """The first position, the step and the length of a slice along an axis; None if it is not known."""
    step = 1
    if part.step is not None and not (part.step.is_known and part.step.known is None):
        if part.step.expr is None or not part.step.expr.constant or part.step.expr.const == 0:
            return None
        step = part.step.expr.const
    length = axis.length
    if length is None:
        if step < 0 or part.stop is None:
            return None
        bounds = [constant(0) if b is None else b.expr for b in (part.start, part.stop)]
        if any(b is None or b.lo < 0 for b in bounds):
            return None
        start, stop = bounds[0], bounds[1]
    elif step > 0:
        start, stop = _clamped(part.start, constant(0), length, 0), _clamped(part.stop, length, length, 0)
    else:
        start = _clamped(part.start, add(length, constant(-1)), length, -1)
        stop = _clamped(part.stop, constant(-1), length, -1)
    if start is None or stop is None:
        return None
    if step > 0:
        count = floor_divide(add(stop - start, constant(step - 1)), constant(step))
    else:
        count = floor_divide(add(start - stop, constant(-step - 1)), constant(-step))
    return start, step, count


def _index_table(value: Val, recorder: Recorder) -> Any:
    """The values of an index array that is known and does not change."""
    if not value.is_known or not isinstance(value.known, np.ndarray | list | tuple | range):
        return None
    known = value.known
    if isinstance(known, np.ndarray):
        obj = recorder.memory.owner(known, "index")
    elif isinstance(known, list):
        obj = recorder.memory.container(known, "index")
    else:
        obj = None
    if obj is not None and not recorder.memory.constant(obj):
        return None
    try:
        table = np.asarray(known)
    except ValueError:
        return None
    return table if table.dtype.kind in "iub" and table.size <= LONGEST_TABLE else None


def _part_of_table(value: Val, recorder: Recorder) -> Group | None:
    """The positions that a part of an index array has, one that depends on indices: `table[a:b]`, `table[:, i]`."""
    view = value.view
    if view is None or view.within or view.flat or view.others or len(view.axes) != 1:
        return None
    (axis,) = view.axes
    if axis.dim is None or axis.table is not None or axis.length is None or view.obj.shape is None:
        return None
    table = next((a for a in recorder.memory.alive if id(a) == view.obj.key), None)
    if type(table) is not np.ndarray or table.dtype.kind not in "iu" or not 0 < table.size <= LONGEST_TABLE:
        return None
    if table.min() < 0 or axis.slope < 1 or not recorder.memory.constant(view.obj):
        return None
    # In this order, positions along the axis that the part has are neighbours, if it has all of them.
    moved = np.moveaxis(table, axis.dim, -1)
    phases = [moved[..., k :: axis.slope] for k in range(axis.slope)]
    start, stride = constant(0), 1
    for dim in reversed([d for d in range(table.ndim) if d != axis.dim]):
        start = start + scale(view.dims[dim], stride)
        stride *= table.shape[dim]
    first = view.dims[axis.dim]
    widths = [p.shape[-1] for p in phases]
    sizes = np.cumsum([0, *(p.size for p in phases[:-1])])
    phase = remainder(first, constant(axis.slope)) if axis.slope > 1 else constant(0)
    at = gather(sizes, [phase]) + multiply(start, gather(np.array(widths), [phase]))
    order = np.concatenate([p.ravel() for p in phases]).astype(np.int64)
    count = greatest(axis.length, constant(0))
    return Group(order, at + floor_divide(first, constant(axis.slope)), count, int(table.max()) + 1, mask=False)


def subscript_view(view: View, parts: Sequence[Part], recorder: Recorder) -> tuple[View, bool] | None:
    """The region `view[parts]`, and whether it is a selection (a copy when it is read). None: not followed."""
    if view.within:
        return view, False
    taken = sum(1 for p in parts if not _adds_axis(p) and not _is_ellipsis(p))
    for p in parts:
        if isinstance(p, Val) and p.is_known and isinstance(p.known, np.ndarray) and p.known.dtype == bool:
            taken += p.known.ndim - 1
    missing = len(view.axes) - taken
    if missing < 0:
        return None
    dims, axes, selects = list(view.dims), [], False
    queue = list(view.axes)
    parts = list(parts)
    if not any(_is_ellipsis(p) for p in parts):
        parts.append(Val(known=Ellipsis))
    for part in parts:
        if _is_ellipsis(part):
            axes += queue[:missing]
            del queue[:missing]
            continue
        if _adds_axis(part):
            axes.append(Axis(None, 0, constant(1)))
            continue
        axis = queue.pop(0)
        if isinstance(part, Slice):
            found = sliced(axis, part) if axis.table is None else None
            if found is None:
                axes.append(axis)
                return replace(view, dims=tuple(dims), axes=(*axes, *queue), within=True), selects
            start, step, count = found
            if axis.dim is not None:
                dims[axis.dim] = dims[axis.dim] + scale(start, axis.slope)
            axes.append(Axis(axis.dim, axis.slope * step, count))
            continue
        if part.expr is not None and part.expr.integer and part.kind != "b":
            at = wrapped(part.expr, axis.length) if axis.table is None else None
            if at is None:
                return replace(view, dims=tuple(dims), axes=(*axes, axis, *queue), within=True), selects
            if axis.dim is not None:
                dims[axis.dim] = dims[axis.dim] + scale(at, axis.slope)
            continue
        if part.positions is not None and axis.dim is not None and axis.table is None:
            at_each = [wrapped(e, axis.length) for e in part.positions]
            ready = tuple(e for e in at_each if e is not None)
            if len(ready) == len(at_each):
                selects = True
                axes.append(Axis(axis.dim, axis.slope, constant(len(ready)), ready))
                continue
        group = part.group or (_part_of_table(part, recorder) if axis.dim is not None else None)
        group = group if not any(o.written or o.maybe_written for o in objects(part)) else None
        if group is not None and axis.dim is not None and axis.table is None and _fits(group, axis.length):
            selects = True
            axes.append(Axis(axis.dim, axis.slope, group.count, group))
            continue
        table = _index_table(part, recorder)
        if table is not None and table.dtype.kind == "b":
            for other in [axis, *(queue.pop(0) for _ in range(table.ndim - 1))]:
                axes.append(other)
            if table.ndim == 1 and axis.dim is not None:
                table = np.flatnonzero(table)
                axes.pop()
            else:
                selects = True
                continue
        if table is not None and axis.dim is not None:
            selects = True
            length = axis.length
            if table.size and table.min() < 0:
                if length is None or not length.constant:
                    return None
                table = np.where(table < 0, table + length.const, table)
            axes.append(Axis(axis.dim, axis.slope, constant(table.size), table.ravel().astype(np.int64)))
            continue
        # Some elements, or all: a mask may stand for several axes.
        return replace(view, dims=tuple(dims), axes=(*axes, axis, *queue), within=True), selects
    return replace(view, dims=tuple(dims), axes=(*axes, *queue)), selects


def _fits(group: Group, length: Expr | None) -> bool:
    """Whether positions of a group are positions along an axis."""
    if length is None or not length.constant:
        return False
    return length.const == group.length if group.mask else length.const >= group.length


def _adds_axis(part: Part) -> bool:
    return isinstance(part, Val) and part.is_known and part.known is None


def _is_ellipsis(part: Part) -> bool:
    return isinstance(part, Val) and part.is_known and part.known is Ellipsis


def length_of(value: Val) -> Expr | None:
    """`len(value)`, where it is known."""
    if value.items is not None:
        return constant(len(value.items))
    if value.view is not None and not value.view.within:
        return value.view.axes[0].length if value.view.axes else None
    if value.is_known and isinstance(value.known, list | tuple | dict | str | range | np.ndarray | set | frozenset):
        if isinstance(value.known, np.ndarray) and value.known.ndim == 0:
            return None
        return constant(len(value.known))
    return None


def range_extent(start: Expr, stop: Expr, step: int) -> Expr:
    """How many numbers a range has."""
    gap = stop - start if step > 0 else start - stop
    size = abs(step)
    if size > 1:
        gap = floor_divide(add(gap, constant(size - 1)), constant(size))
    return gap if gap.hi >= 0 else constant(0)


def positive_length(extent: Expr) -> bool:
    """Whether a loop surely runs."""
    return extent.lo >= 1 and not math.isinf(extent.lo)
