"""Writing. In: a base, a place in it, values. Out: the base after the write, a new value; plans write in place.

Along the axis that is cut, at indices one exchange: they and their values to the owners, who write in the order of the
index array (the last one stays; for `ufunc.at`, all count). Where a mask holds, two: how many rows each worker writes,
to all; then the rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, permutations
from math import prod
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op
from tilewise.ir.scalar import UFUNCS
from tilewise.layout import (
    Cuts,
    Ghosts,
    Layout,
    Mesh,
    Shard,
    all_at,
    at_one_place,
    lengths_of,
    slice_cuts,
)
from tilewise.ops.create import is_new
from tilewise.ops.index.key import FULL_AXIS, Key, Together, rebuild, together
from tilewise.ops.index.owners import Rows, base_layouts, cut_along, letters_of, named_shape, row_bytes, runs_of
from tilewise.ops.recut import recut_traffic
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.collectives import (
    COUNT_BYTES,
    ND,
    CollectiveCall,
    Exchanging,
    Operand,
    Parts,
    Traffic,
    exchange_rounds,
    traffic,
    worker_cuts,
)
from tilewise.ops.traits.ghosts import NO_GHOSTS, ghosts_made, ghosts_needed, least, value_needs, window_has
from tilewise.ops.traits.rule import (
    LETTERS,
    WHOLE,
    Options,
    Rule,
    axis_cuts,
    by_letters,
    cutting_both,
    on_grid,
    specific,
)
from tilewise.ops.views import Axis, Window, walks, window
from tilewise.records import dataclass


class Write(Op):
    """A new value of the whole base in which a part is replaced. `into` writes into a buffer that holds the base."""

    __slots__ = ()

    def into(self, buffer: np.ndarray[Any, Any], *arrays: Any) -> None:
        raise NotImplementedError

    def numpy(self, *arrays: Any) -> Any:
        out = arrays[0].copy(order="K")
        self.into(out, *arrays[1:])
        return out


@dataclass(frozen=True)
class Update(Write):
    """base with a window of it replaced by a value (broadcast to the window's shape)."""

    window: Window
    name = "update"

    def into(self, buffer: np.ndarray[Any, Any], *arrays: Any) -> None:
        self.window.on(buffer)[...] = arrays[0]


@dataclass(frozen=True)
class Unchanged(Write):
    """An update that does not touch this block."""

    name = "update"

    def into(self, buffer: np.ndarray[Any, Any], *arrays: Any) -> None:
        return None


@on_block.register(Update)
def _(op: Update, out: Part, ins: Sequence[Part]) -> Op:
    """The part of the window that lies in the block."""
    if out.whole:
        return op
    found = walks(op.window)
    if found is None and 0 in out.dims:  # another block has everything
        return Unchanged()
    assert found is not None, "an update cut into blocks is a plain box"
    axes, starts = list(found[0]), list(found[1])
    for axis, (low, high) in enumerate(out.box):
        if (low, high) == (0, out.shape[axis]):
            continue
        where = next((k for k, a in enumerate(axes) if a.base == axis), None)
        if where is not None:
            walk = axes[where]
            has = _given_along(walk, where - len(axes), ins[1])  # fewer, where ghosts are computed
            first = max(-(-(low - walk.start) // walk.step), has[0])
            last = min(-(-(high - walk.start) // walk.step), has[1])
            count = max(last - first, 0)
            starts[axis] = walk.start + first * walk.step - low if count else 0
            axes[where] = Axis(axis, starts[axis], walk.step, count)
        elif not low <= starts[axis] < high:
            if 0 not in ins[1].dims:
                return Unchanged()
            # The value is where it is needed only. A step that also computes it has an update on every block.
            starts[axis] = 0
            given = (1,) * (len(axes) - len(ins[1].dims)) + ins[1].dims
            axes = [a if n else Axis(a.base, a.start, a.step, 0) for a, n in zip(axes, given, strict=True)]
        else:
            starts[axis] -= low
    return Update(window(out.dims, out.order, out.dtype, axes, starts))


def _given_along(walk: Axis, axis: int, value: Part) -> tuple[int, int]:
    """Which elements along an axis of the window (counted from the last one) a block has values for."""
    repeated = -axis > len(value.shape) or value.shape[axis] != walk.length
    return (0, walk.length) if repeated else value.box[axis]


@dataclass(frozen=True)
class Put(Write):
    """view[key] = value, where view is a window of the base (None: all of it) and key holds index arrays."""

    key: Key
    window: Window | None
    name = "put"

    def into(self, buffer: np.ndarray[Any, Any], *arrays: Any) -> None:
        target = buffer if self.window is None else self.window.on(buffer)
        target[rebuild(self.key, arrays[1:])] = arrays[0]


@dataclass(frozen=True)
class At(Write):
    """ufunc.at(view, key, value)."""

    fn: str
    key: Key
    window: Window | None
    name = "at"

    def into(self, buffer: np.ndarray[Any, Any], *arrays: Any) -> None:
        target = buffer if self.window is None else self.window.on(buffer)
        ufunc = UFUNCS[self.fn]
        if ufunc.nin == 1:
            ufunc.at(target, rebuild(self.key, arrays))
        else:
            ufunc.at(target, rebuild(self.key, arrays[1:]), arrays[0])

    def label(self) -> str:
        return f"{self.fn}.at"


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Update)
def _(op: Update, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    found = walks(op.window)
    base, value = node.inputs
    if found is None:
        return
    axes = found[0]
    for axis, n in enumerate(base.shape):
        if n < 2:
            continue
        where = [k for k, a in enumerate(axes) if a.base == axis]
        if where and axes[where[0]].step < 1:
            continue
        own = where[0] - (len(axes) - value.ndim) if where else -1
        along = own >= 0 and value.shape[own] == axes[where[0]].length
        for cuts in dict.fromkeys((*axis_cuts(have[0], axis, n, mesh), *_around(node, axes, axis, own, have, mesh))):
            inside: list[Layout] = [WHOLE]
            if along:
                walk = axes[where[0]]
                inside = [Shard(own, slice_cuts(cuts, walk.start, walk.step, walk.length))]
            elif not where and value.ndim:  # one index of the axis: only the block that has it needs the value
                block = bisect_right(cuts, found[1][axis]) - 1
                inside.append(Shard(0, all_at(block, value.shape[0], mesh.total_blocks)))
            yield from (Rule((Shard(axis, cuts), x), Shard(axis, cuts)) for x in inside)


@on_grid.register(Update)
def _(op: Update, node: Node, have: Sequence[Sequence[Layout]], mesh: Mesh) -> Iterator[Rule]:
    """One index of an axis is written and both directions are cut: only workers that have it need their part of it."""
    found = walks(op.window)
    base, value = node.inputs
    if found is None:
        return
    axes, starts = found
    for a, b in permutations(range(base.ndim), 2):
        where = next((k for k, x in enumerate(axes) if x.base == b), None)
        if any(x.base == a for x in axes) or where is None or axes[where].step < 1 or base.shape[a] < 2:
            continue
        own, walk = where - (len(axes) - value.ndim), axes[where]
        if own < 0 or value.shape[own] != walk.length or walk.length < 2:
            continue
        for grid in cutting_both(have[0], base.shape, (a, b), mesh):
            direction = int(grid.across.axis == b) if isinstance(grid.across, Shard) else 0
            index, along = (grid.down, grid.across) if direction else (grid.across, grid.down)
            assert isinstance(index, Shard) and isinstance(along, Shard)
            owner = bisect_right(index.cuts, starts[a]) - 1
            part = Shard(own, slice_cuts(along.cuts, walk.start, walk.step, walk.length))
            yield Rule((grid, at_one_place(mesh, direction, owner, own, part)), grid)


def _around(node: Node, axes: Sequence[Axis], axis: int, own: int, have: Options, mesh: Mesh) -> Iterator[Cuts]:
    """Cuts of a new array that leave what is written into it where it is; the borders belong to the outer blocks."""
    base, value = node.inputs
    walk = next((a for a in axes if a.base == axis), None)
    if walk is None or own < 0 or walk.step != 1 or value.shape[own] != walk.length or not is_new(base):
        return
    for cuts in axis_cuts(have[1], own, walk.length, mesh):
        yield (0, *(walk.start + c for c in cuts[1:-1]), base.shape[axis])


@ghosts_needed.register(Update)
def _(op: Update, node: Node, out: Shard, ins: Sequence[Layout]) -> list[Ghosts] | None:
    value = ins[1]
    if not isinstance(value, Shard):
        return [out.ghosts, NO_GHOSTS]
    walk = _walk(op, out.axis)
    if walk is None or walk.step != 1 or 0 in lengths_of(value):
        return None  # neighbours do not have the value
    return [out.ghosts, value_needs(out.cuts, value.cuts, walk.start, out.ghosts)]


@ghosts_made.register(Update)
def _(op: Update, node: Node, out: Shard, ins: Sequence[Layout]) -> tuple[Ghosts, list[Ghosts]]:
    """As many as the base has, so that it can be written in place; those without a value keep what was there."""
    base, value = ins
    assert isinstance(base, Shard)
    if not isinstance(value, Shard):
        return base.ghosts, [base.ghosts, NO_GHOSTS]
    walk = _walk(op, out.axis)
    assert walk is not None
    room = window_has(base, value.cuts, walk.start)
    return base.ghosts, [base.ghosts, least(value.ghosts, room)]


def _walk(op: Update, axis: int) -> Axis | None:
    """How the window walks along an axis of the base; None if it shows one index of it."""
    found = walks(op.window)
    assert found is not None
    return next((a for a in found[0] if a.base == axis), None)


@specific.register(Put)
@specific.register(At)
def _(op: Any, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    if op.window is not None:
        return
    base, index = node.inputs[0], node.inputs[-1]
    if index.dtype == np.bool_:
        if op.key == (("a", 0),):
            yield from _masked(node, have, mesh)
        return
    key = together(op.key, base.ndim)
    if key is not None:
        yield from _indexed(op, node, key, have, mesh)


def _masked(node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    """Writing where a mask over leading axes holds, one after the other: along these axes, by a collective."""
    base, value, mask = node.inputs
    letters = LETTERS[: base.ndim]
    terms = [letters, LETTERS[base.ndim] + letters[mask.ndim :], letters[: mask.ndim]]
    for rule in by_letters(terms, letters, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis >= mask.ndim:
            yield rule
    n = base.shape[0]
    if mesh.workers > 1 and n >= 2:
        for cuts in axis_cuts([*have[0], *have[2]], 0, n, mesh):
            for given in axis_cuts(have[1], 0, value.shape[0], mesh):
                yield Rule((Shard(0, cuts), Shard(0, given), Shard(0, cuts)), Shard(0, cuts), collective=True)


def _values(op: Put | At) -> int:
    """How many operands are values to write: none for a function of one argument."""
    return int(not (isinstance(op, At) and UFUNCS[op.fn].nin == 1))


def _indexed(op: Put | At, node: Node, key: Together, have: Options, mesh: Mesh) -> Iterator[Rule]:
    """Writing at the indices of arrays: along other axes each block does it; along these, by a collective."""
    count = 1 + _values(op)
    base, given, index = node.inputs[0], node.inputs[1:count], node.inputs[count:]
    both = named_shape([x.dims for x in index])
    rank = base.ndim - len(key.parts) + len(both)
    if any(x.ndim > rank for x in given) or any(x.dtype.kind not in "iu" for x in index):
        return
    if isinstance(op, Put) and any(x.ndim > 1 and x.order is not None for x in index):
        # NumPy writes in the order of the indices' memory, but for single columns in theirs: in blocks, another of two
        # equal ones would be the last.
        return
    (letters, *terms), picked = letters_of(base, index, key)
    terms = [letters, *(picked[rank - x.ndim :] for x in given), *terms]
    for rule in by_letters(terms, letters, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis not in key.axes:
            yield rule
    n = both[0] if both else 1
    if mesh.workers == 1 or n < 1:
        return
    longest = next((k for k, x in enumerate(index) if x.ndim == len(both) and x.shape[:1] == (n,)), None)
    for asked in axis_cuts(have[count + longest], 0, n, mesh) if longest is not None else ():
        values: list[Layout] = []
        for x in given:
            k = key.first - (rank - x.ndim)
            values.append(Shard(k, asked) if k >= 0 and x.shape[k] == n > 1 else WHOLE)
        for layout in base_layouts(base, key, have[0], mesh):
            ins = (layout, *values, *cut_along(index, 0, both, asked))
            if any(isinstance(x, Shard) for x in ins[count:]):
                yield Rule(ins, layout, collective=True)


@traffic.register(Put)
@traffic.register(At)
def _(op: Put | At, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Indices, and values where they differ, to the owners of rows. For a mask: how many rows, to all; then rows."""
    count = 1 + _values(op)
    given, index = ins[1:count], ins[count:]
    if index[0].dtype == np.bool_:
        return recut_traffic(index[0], given[0], mesh)
    key = together(op.key, len(ins[0].shape))
    assert key is not None
    rows = prod(named_shape([x.shape for x in index]))
    each = COUNT_BYTES
    for x in given:
        if _sent(x.shape, key, len(ins[0].shape)):
            each += row_bytes(ins[0], key) // ins[0].dtype.itemsize * x.dtype.itemsize
    return Traffic("values by index", rows * each, (2,))


def _sent(shape: tuple[int, ...], key: Together, ndim: int) -> bool:
    """Whether values differ from index to index: then each goes with its index."""
    after = ndim - key.axes[-1] - 1
    return len(shape) > after and prod(shape[: len(shape) - after]) > 1


@exchange_rounds.register(Put)
@exchange_rounds.register(At)
def _(op: Put | At, call: CollectiveCall, worker: int, blocks: Parts, *rest: Parts) -> Exchanging:
    count = _values(op)
    given, index = rest[:count], rest[count:]
    if call.ins[-1].dtype == np.bool_:
        return (yield from _where(op, call, worker, blocks, given[0], index[0]))
    base, mine = call.ins[0], call.mesh.blocks_of(worker)
    key = together(op.key, len(base.shape))
    assert key is not None
    places = Rows(call, key)
    named = list(places.numbers(index, mine))
    rows = np.concatenate([x.ravel() for x in named])
    before, after = base.shape[: key.first], base.shape[key.axes[-1] + 1 :]
    sent = bool(given) and _sent(call.ins[1].shape, key, len(base.shape))
    values = np.empty(0)
    if sent:
        parts = [given[0][b] if b in given[0] else given[0][-1] for b in mine]
        full = [np.broadcast_to(v, (*before, *x.shape, *after)) for v, x in zip(parts, named, strict=True)]
        flat = [v.reshape(*before, x.size, *after) for v, x in zip(full, named, strict=True)]
        values = np.concatenate(flat, axis=key.first)
    order, runs = runs_of(places.owners(rows), call.mesh.workers)
    inbox = yield [[rows[order[run]], np.take(values, order[run], axis=key.first) if sent else values] for run in runs]
    rows = np.concatenate([piece[0] for piece in inbox])
    if sent:
        values = np.concatenate([piece[1] for piece in inbox], axis=key.first)
    plain = replace(op, key=(*[FULL_AXIS] * key.first, *(("a", k) for k in range(len(key.parts)))))
    out: Parts = {}
    for b, x in blocks.items():
        where, at = places.within(rows, b)
        out[b] = x.copy(order="K")
        if where.size and x.size:
            written = [np.take(values, where, axis=key.first)] if sent else [v[-1] for v in given]
            plain.into(out[b], *written, *at[key.first :])
    return out


def _where(op: Put | At, call: CollectiveCall, worker: int, blocks: Parts, value: Parts, mask: Parts) -> Exchanging:
    """The reverse of a selection (recut.py): each worker gets the run of rows that its mask has places for."""
    layout, workers = call.ins[1].layout, call.mesh.workers
    assert isinstance(layout, Shard)
    counts = {b: int(np.count_nonzero(m)) for b, m in sorted(mask.items())}
    inbox = yield [[np.array([sum(counts.values())], np.int64)]] * workers
    ends = list(accumulate((int(count[0]) for (count,) in inbox), initial=0))
    own, low = _joined(value, 0), worker_cuts(layout.cuts, call.mesh)[worker]
    inbox = yield [[own[max(ends[w] - low, 0) : max(ends[w + 1] - low, 0)]] for w in range(workers)]
    rows = np.concatenate([piece for (piece,) in inbox])
    out: Parts = {}
    start = 0
    for b, count in counts.items():
        out[b] = blocks[b].copy(order="K")
        op.into(out[b], rows[start : start + count], mask[b])
        start += count
    return out


def _joined(blocks: Parts, axis: int) -> ND:
    """A worker's blocks as one array."""
    return np.concatenate([blocks[b] for b in sorted(blocks)], axis=axis)
