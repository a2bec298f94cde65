"""Subscripts of traced values: which parts iterations read and write. In: keys with positions. Out: nodes, writes.

`X[i]` and `X[:, i]` are slices of X with the axis of the loop in front, `X[i : i + w]` is a view of windows, `X[i + j]`
and `X[t[i]]` select by index. A position that is out of range in some iteration ends the trace: the loop itself raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.parfor.bodies.arrays.axes import Axis, NotArrays, Position, Ranges, as_position, merged
from tilewise.parfor.bodies.arrays.traced import ROUTES, Node, Recorder, Traced, Values, node_of


@dataclass(frozen=True)
class Window:
    """A slice of constant length whose start is a position."""

    start: Position
    length: int


def _parts(key: Any, shape: Sequence[int]) -> list[Any]:
    """One part for each axis: a slice, an int, a Position, a Window, or a Traced integer."""
    given = list(key) if isinstance(key, tuple) else [key]
    if any(part is None for part in given) or sum(part is Ellipsis for part in given) > 1:
        raise NotArrays("a new axis in a subscript with a loop variable")
    if any(part is Ellipsis for part in given):
        at = next(n for n, part in enumerate(given) if part is Ellipsis)
        given[at : at + 1] = [slice(None)] * (len(shape) - len(given) + 1)
    if len(given) > len(shape):
        raise NotArrays("too many subscripts")
    given += [slice(None)] * (len(shape) - len(given))
    return [_part(part, length) for part, length in zip(given, shape, strict=True)]


def _part(part: Any, length: int) -> Any:
    if isinstance(part, slice):
        if not any(isinstance(p, Position) for p in (part.start, part.stop, part.step)):
            return part
        start, stop = (
            as_position(0 if part.start is None else part.start),
            as_position(length if part.stop is None else part.stop),
        )
        if isinstance(part.step, Position) or part.step not in (None, 1) or start is None or stop is None:
            raise NotArrays("a slice whose step depends on a loop variable")
        width = stop.plus(start, -1)
        if width.terms or width.const < 0 or start.lowest < 0 or start.highest + width.const > length:
            raise NotArrays("slices of different lengths")
        return Window(start, width.const)
    if isinstance(part, Position):
        return _wrapped(part, length)
    if isinstance(part, Traced):
        if part.ndim or part.dtype.kind not in "iu":
            raise NotArrays("a selection by an array that depends on the loop")
        return part
    if isinstance(part, int | np.integer) and not isinstance(part, bool | np.bool_):
        if not -length <= part < length:
            raise NotArrays("a subscript that is out of range")
        return int(part)
    raise NotArrays(f"a {type(part).__name__} in a subscript with a loop variable")


def _wrapped(at: Position, length: int) -> Position:
    """A position that does not count from the end."""
    if at.lowest >= 0 and at.highest < length:
        return at
    if at.lowest >= -length and at.highest < 0:
        return Position(at.terms, at.const + length)
    raise NotArrays("a subscript that is out of range, or counts from both ends")


def _span(at: Position, ranges: Ranges) -> slice:
    """The elements that a position of one loop goes over."""
    ((axis, slope),) = at.terms.items()
    first, end = ranges.of(axis)
    begin, last = at.const + slope * first, at.const + slope * (end - 1)
    stop = last + (1 if slope > 0 else -1)
    return slice(begin, None if stop < 0 else stop, slope)


def getitem(recorder: Recorder, value: Traced, key: Any) -> Any:
    """value[key]."""
    parts = key if isinstance(key, tuple) else (key,)
    loops = [p for p in parts if isinstance(p, Position | Traced | slice) and _depends(p)]
    node = node_of(recorder, value)
    if not loops:
        sample = node.sample[key]
        lead = (slice(None),) * len(node.dims)
        made = recorder.add(Node(node.dims, sample, lambda v: v.of(node)[(*lead, *parts)], shown=node.shown), work=0.0)
        value.viewed = made.viewed = bool(np.ndim(sample))
        return made
    found = _parts(key, value.shape)
    sample = node.sample[tuple(map(_sampled, found))]
    own = [p.dims if isinstance(p, Position) else p.node.dims for p in found if isinstance(p, Position | Traced)]
    own += [p.start.dims for p in found if isinstance(p, Window)]
    if any(set(dims) & set(node.dims) for dims in own):
        raise NotArrays("two subscripts by one loop variable")
    used = [axis for dims in own for axis in dims]
    distinct = len(set(used)) == len(used)
    simple = distinct and all(len(dims) == 1 for dims in own) and not any(isinstance(p, Traced) for p in found)
    dims = merged(node.dims, *own)
    make = _sliced(node, found, dims) if simple else _selected(node, found, dims, np.ndim(sample))
    made = recorder.add(Node(dims, sample, make, shown=simple and node.shown), work=0.0 if simple else None)
    value.viewed = True
    made.viewed = bool(np.ndim(sample))
    return made


def _depends(part: Any) -> bool:
    if isinstance(part, slice):
        return any(isinstance(p, Position | Traced) for p in (part.start, part.stop, part.step))
    return True


def _sampled(part: Any) -> Any:
    """A part of a key in the first iterations."""
    if isinstance(part, Window):
        return slice(part.start.sample, part.start.sample + part.length)
    if isinstance(part, Position):
        return part.sample
    return part.node.sample if isinstance(part, Traced) else part


def _sliced(node: Node, parts: Sequence[Any], dims: tuple[Axis, ...]) -> Any:
    """Parts that are slices of the value: its axis of each loop comes to the front."""

    def make(v: Values) -> Any:
        array, lead = v.of(node), len(node.dims)
        key: list[Any] = [slice(None)] * lead
        names: list[Any] = list(node.dims)  # the loop of each axis that is left, or None
        windows: list[tuple[int, int, int]] = []  # axis, length, step
        for part in parts:
            if isinstance(part, int):
                key.append(part)
                continue
            at = part.start if isinstance(part, Window) else part
            if isinstance(at, Position):
                if isinstance(part, Window):
                    windows.append((len(names), part.length, next(iter(at.terms.values()))))
                key.append(_window_span(at, part.length, v.ranges) if isinstance(part, Window) else _span(at, v.ranges))
                names.append(next(iter(at.terms)))
            else:
                key.append(part)
                names.append(None)
        array = array[tuple(key)]
        order = [names.index(axis) for axis in dims]
        cores: list[int] = []
        for axis, length, slope in windows:  # views of windows get their own axis, at the end
            array = np.lib.stride_tricks.sliding_window_view(array, length, axis=axis)
            step: list[Any] = [slice(None)] * array.ndim
            step[axis] = slice(None, None, slope)
            array = array[tuple(step)]
        ends = {axis: len(names) + n for n, (axis, _, _) in enumerate(windows)}
        for n, name in enumerate(names):
            if n >= lead and name is None:
                cores.append(n)
            elif n in ends:
                cores.append(ends[n])
        return array.transpose(*order, *cores) if [*order, *cores] != [*range(array.ndim)] else array

    return make


def _window_span(at: Position, length: int, ranges: Ranges) -> slice:
    """All elements of the windows."""
    ((axis, slope),) = at.terms.items()
    first, end = ranges.of(axis)
    ends = (at.const + slope * first, at.const + slope * (end - 1))
    return slice(min(ends), max(ends) + length)


def _selected(node: Node, parts: Sequence[Any], dims: tuple[Axis, ...], rank: int) -> Any:
    """Parts that are selected by index arrays."""
    if node.dims:
        raise NotArrays("a selection from values that depend on loops")
    if any(isinstance(p, Window) for p in parts):
        raise NotArrays("windows beside a selection")

    def make(v: Values) -> Any:
        key, core = [], len(dims)
        total = len(dims) + sum(isinstance(p, slice) for p in parts)
        for part, length in zip(parts, node.sample.shape, strict=True):
            if isinstance(part, slice):
                index = np.arange(length)[part]
                key.append(index.reshape([-1 if n == core else 1 for n in range(total)]))
                core += 1
                continue
            if isinstance(part, Position):
                found = part.values(v.ranges, dims)
            else:
                found = np.asarray(v.aligned(part.node, dims, 0)) if isinstance(part, Traced) else np.asarray(part)
                if found.size and not (-length <= found.min() and found.max() < length):
                    raise NotArrays("a subscript that is out of range")
            key.append(found.reshape(found.shape + (1,) * (total - found.ndim)))
        array = v.of(node)[tuple(key)]
        shape = (*(v.ranges.length(a) for a in dims), *array.shape[len(dims) :])
        return array if array.shape == shape else np.broadcast_to(array, shape)

    return make


@dataclass(frozen=True)
class Write:
    """An assignment to a part of an array."""

    array: np.ndarray[Any, Any]
    parts: tuple[Any, ...]
    node: Node
    axes: tuple[Axis, ...]  # loops around it

    def run(self, value: Any, ranges: Ranges) -> None:
        """Write a computed value: its axes are those of its loops, then its own."""
        dims = self.axes
        width = sum(isinstance(p, slice | Window) for p in self.parts)
        total = len(dims) + width
        core = value.ndim - len(self.node.dims)
        lead = tuple(slice(None) if a in self.node.dims else None for a in dims)
        value = value[(*lead, *[None] * (width - core), ...)]
        key, at = [], len(dims)
        for part, length in zip(self.parts, self.array.shape, strict=True):
            if isinstance(part, slice | Window):
                own = np.arange(length)[part] if isinstance(part, slice) else np.arange(part.length)
                index = own.reshape([-1 if n == at else 1 for n in range(total)])
                if isinstance(part, Window):
                    start = part.start.values(ranges, dims)
                    index = index + start.reshape(start.shape + (1,) * width)
                at += 1
            else:
                index = part.values(ranges, dims) if isinstance(part, Position) else np.full((1,) * len(dims), part)
                index = index.reshape(index.shape + (1,) * width)
            key.append(index)
        basic = self._basic(ranges) if not any(a.bounds for a in dims) else None
        if basic is not None:
            view = self.array[basic[0]].transpose(basic[1])
            view[...] = value
            return
        mask = inside(dims, ranges)
        if mask is None:
            self.array[tuple(key)] = value
            return
        keep = np.broadcast_to(mask.reshape(mask.shape + (1,) * width), np.broadcast_shapes(*(k.shape for k in key)))
        self.array[tuple(np.broadcast_to(k, keep.shape)[keep] for k in key)] = np.broadcast_to(value, keep.shape)[keep]

    def _basic(self, ranges: Ranges) -> tuple[tuple[Any, ...], list[int]] | None:
        """A key of slices, and the order of the loops' and other axes in what it shows."""
        key: list[Any] = []
        names: list[Any] = []
        for part in self.parts:
            if isinstance(part, Position):
                if len(part.terms) != 1:
                    return None
                key.append(_span(part, ranges))
                names.append(next(iter(part.terms)))
            elif isinstance(part, slice):
                key.append(part)
                names.append(None)
            elif isinstance(part, Window):
                return None
            else:
                key.append(part)
        if len({n for n in names if n}) != len(self.axes):
            return None
        order = [names.index(a) for a in self.axes]
        return tuple(key), [*order, *(n for n, name in enumerate(names) if name is None)]


def inside(axes: Sequence[Axis], ranges: Ranges) -> Any:
    """Which combinations of iterations exist, where bounds of loops depend on outer ones; None: all."""
    mask = None
    for n, axis in enumerate(axes):
        if axis.bounds is None:
            continue
        shape = [1] * len(axes)
        shape[n] = -1
        number = np.arange(*ranges.of(axis)).reshape(shape)
        low, high = (b.values(ranges, axes) for b in axis.bounds)
        here = (number >= low) & (number < high)
        mask = here if mask is None else mask & here
    return mask


def setitem(recorder: Any, target: Traced, key: Any, value: Any) -> None:
    """target[key] = value."""
    recorder.write(target, _parts(key, target.shape), value)


ROUTES["getitem"], ROUTES["setitem"] = getitem, setitem
