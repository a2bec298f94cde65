"""Writing. In: a base, a place in it, values. Out: the base after the write, a new value; plans write in place.

Along the axis that is cut, at indices one exchange: they and their values to the owners, who write in the order of the
index array (the last one stays; for `ufunc.at`, all count). Where a mask holds, two: how many rows each worker writes,
to all; then the rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op
from tilewise.ir.scalar import UFUNCS
from tilewise.layout import Cuts, Layout, Mesh, Shard, all_at, slice_cuts
from tilewise.ops.block import Part, on_block
from tilewise.ops.collectives import (
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
from tilewise.ops.create import is_new
from tilewise.ops.index.key import Key, one_array, rebuild
from tilewise.ops.index.owners import from_front
from tilewise.ops.rule import LETTERS, WHOLE, Options, Rule, axis_cuts, by_letters, specific
from tilewise.ops.views import Axis, Window, walks, window


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


@on_block.register
def _(op: Update, out: Part, ins: Sequence[Part]) -> Op:
    """The part of the window that lies in the block."""
    if out.whole:
        return op
    found = walks(op.window)
    assert found is not None, "an update cut into blocks is a plain box"
    axes, starts = list(found[0]), list(found[1])
    for axis, (low, high) in enumerate(out.box):
        if (low, high) == (0, out.shape[axis]):
            continue
        where = next((k for k, a in enumerate(axes) if a.base == axis), None)
        if where is not None:
            walk = axes[where]
            first = max(-(-(low - walk.start) // walk.step), 0)
            last = min(-(-(high - walk.start) // walk.step), walk.length)
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


@specific.register
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


def _around(node: Node, axes: Sequence[Axis], axis: int, own: int, have: Options, mesh: Mesh) -> Iterator[Cuts]:
    """Cuts of a new array that leave what is written into it where it is; the borders belong to the outer blocks."""
    base, value = node.inputs
    walk = next((a for a in axes if a.base == axis), None)
    if walk is None or own < 0 or walk.step != 1 or value.shape[own] != walk.length or not is_new(base):
        return
    for cuts in axis_cuts(have[1], own, walk.length, mesh):
        yield (0, *(walk.start + c for c in cuts[1:-1]), base.shape[axis])


@specific.register(Put)
@specific.register(At)
def _(op: Any, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    if op.window is not None:
        return
    at, index = one_array(op.key), node.inputs[-1]
    if at is None:
        return
    if index.dtype == np.bool_:
        yield from _masked(node, have, mesh)
    elif index.ndim == 1:
        yield from _indexed(node, at, have, mesh)


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


def _indexed(node: Node, at: int, have: Options, mesh: Mesh) -> Iterator[Rule]:
    """Writing at the indices of an array: along other axes each block does it; along this one, by a collective."""
    base, *given, index = node.inputs
    letters = LETTERS[: base.ndim]
    own = LETTERS[base.ndim]
    picked = letters[:at] + own + letters[at + 1 :]
    if any(x.ndim > base.ndim for x in given):
        return
    terms = [letters, *(picked[base.ndim - x.ndim :] for x in given), own]
    for rule in by_letters(terms, letters, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis != at:
            yield rule
    n, length = index.shape[0], base.shape[at]
    if mesh.workers == 1 or n < 1 or length < 2:
        return
    for asked in axis_cuts(have[-1], 0, n, mesh):
        values: list[Layout] = []
        for x in given:
            k = at - (base.ndim - x.ndim)
            values.append(Shard(k, asked) if k >= 0 and x.shape[k] == n > 1 else WHOLE)
        for cuts in axis_cuts(have[0], at, length, mesh):
            yield Rule((Shard(at, cuts), *values, Shard(0, asked)), Shard(at, cuts), collective=True)


@traffic.register(Put)
@traffic.register(At)
def _(op: Put | At, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Indices, and values where they differ, to the owners of rows. For a mask: how many rows, to all; then rows."""
    *given, index = ins[1:]
    if index.dtype == np.bool_:
        p, (value,) = mesh.workers, given
        return Traffic("selected rows", p * (p - 1) * COUNT_BYTES + value.shape[0] * value.row_bytes, (1, 1))
    each = COUNT_BYTES + sum(x.row_bytes for x in given if isinstance(x.layout, Shard))
    return Traffic("values by index", index.shape[0] * each, (2,))


@exchange_rounds.register(Put)
@exchange_rounds.register(At)
def _(op: Put | At, call: CollectiveCall, worker: int, blocks: Parts, *rest: Parts) -> Exchanging:
    base, (*given, index) = call.ins[0], rest
    if call.ins[-1].dtype == np.bool_:
        return (yield from _where(op, call, worker, blocks, given[0], index))
    layout = base.layout
    assert isinstance(layout, Shard)
    along = next((x.layout.axis for x in call.ins[1:-1] if isinstance(x.layout, Shard)), None)
    rows = from_front(_joined(index, 0), base.shape[layout.axis], layout.axis)
    values = _joined(given[0], along) if along is not None else np.empty(0)
    owner = np.searchsorted(worker_cuts(layout.cuts, call.mesh), rows, side="right") - 1
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(call.mesh.workers + 1))
    runs = [order[ends[w] : ends[w + 1]] for w in range(call.mesh.workers)]
    inbox = yield [[rows[run], values if along is None else np.take(values, run, axis=along)] for run in runs]
    where = np.concatenate([piece[0] for piece in inbox])
    if along is not None:
        values = np.concatenate([piece[1] for piece in inbox], axis=along)
    out: Parts = {}
    for b, x in blocks.items():
        low, high = layout.owned(b)
        mine = np.flatnonzero((where >= low) & (where < high))
        out[b] = x.copy(order="K")
        written = [parts[-1] if along is None else np.take(values, mine, axis=along) for parts in given]
        if mine.size:
            op.into(out[b], *written, where[mine] - low)
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
