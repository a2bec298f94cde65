"""Reductions of slices along an axis, `ufunc.reduceat`. In: values, where slices start. Out: one result per slice.

Along the axis that is cut, workers know all starts. Each reduces what it has of the slices; one exchange takes these
contributions to the workers whose results they belong to: hardly more than those of slices that a cut goes through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.reductions import splits
from tilewise.ir.scalar import UFUNCS
from tilewise.layout import Cutting, Mesh, Shard, even_shard
from tilewise.ops.elementwise import cast
from tilewise.ops.traits.collectives import (
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
from tilewise.ops.traits.rule import LETTERS, WHOLE, Options, Rule, axis_cuts, by_letters, specific
from tilewise.records import dataclass


@dataclass(frozen=True)
class Segments(Op):
    """`ufunc.reduceat` along an axis: the second input holds where slices start."""

    fn: str
    axis: int
    dtype: np.dtype[Any]
    name = "segments"

    def numpy(self, *arrays: Any) -> Any:
        return UFUNCS[self.fn].reduceat(arrays[0], arrays[1], axis=self.axis, dtype=self.dtype)

    def label(self) -> str:
        return f"{self.fn}.reduceat[{self.axis}]"


def segments(node: Node, starts: Node, fn: str, axis: int, dtype: np.dtype[Any]) -> Node:
    """Reductions of the slices that `starts` names."""
    shape = (*node.shape[:axis], starts.shape[0], *node.shape[axis + 1 :])
    return intern(Segments(fn, axis, dtype), (cast(node, dtype), starts), shape, dtype)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Segments)
def _(op: Segments, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    base, starts = node.inputs
    term, slices = LETTERS[: base.ndim], LETTERS[base.ndim]
    out = term[: op.axis] + slices + term[op.axis + 1 :]
    for rule in by_letters([term, slices], out, node, have, mesh, pieces=True):
        if isinstance(rule.out, Cutting) and rule.out.axis != op.axis:
            yield rule
    if mesh.workers > 1 and splits(op.fn) and base.shape[op.axis] >= 2 and starts.shape[0]:
        for cuts in axis_cuts(have[0], op.axis, base.shape[op.axis], mesh):
            ins = (Shard(op.axis, cuts), WHOLE)
            yield Rule(ins, even_shard(op.axis, node.shape, mesh), collective=True)


@traffic.register(Segments)
def _(op: Segments, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """A result for every slice that a worker has a part of, to whom it belongs.

    Slices may overlap, so that each may have parts on all workers. They hardly do: most are on one, and as evenly
    spread as the even cuts of their results take them to be.
    """
    most = out.shape[op.axis] * (mesh.workers - 1)
    likely = min(out.shape[op.axis] // 2 + mesh.workers, most)
    return Traffic("parts of slices", most * out.row_bytes, (1,), expected=likely * out.row_bytes)


@exchange_rounds.register(Segments)
def _(op: Segments, call: CollectiveCall, worker: int, blocks: Parts, starts: Parts) -> Exchanging:
    mesh, given, made = call.mesh, call.ins[0], call.out.layout
    assert isinstance(given.layout, Shard) and isinstance(made, Shard)
    ufunc, length = UFUNCS[op.fn], given.shape[op.axis]
    low, high = _slices(starts[-1], length, op)
    cuts, ends = worker_cuts(given.layout.cuts, mesh), worker_cuts(made.cuts, mesh)
    x = np.moveaxis(np.concatenate([blocks[b] for b in sorted(blocks)], axis=op.axis), op.axis, 0)
    has = [np.maximum(low, a) < np.minimum(high, b) for a, b in pairwise(cuts)]
    mine = np.flatnonzero(has[worker])
    begin = cuts[worker]
    own = _reduced(ufunc, x, np.maximum(low[mine], begin) - begin, np.minimum(high[mine] - begin, len(x)), op.dtype)
    edges = np.searchsorted(mine, ends)
    inbox = yield [[own[edges[w] : edges[w + 1]]] for w in range(mesh.workers)]
    first, last = ends[worker], ends[worker + 1]
    found = np.empty((last - first, *x.shape[1:]), op.dtype)
    there = np.zeros(last - first, bool)
    for part, (piece,) in zip(has, inbox, strict=True):
        at = np.flatnonzero(part[first:last])
        old = there[at]
        found[at[~old]] = piece[~old]
        found[at[old]] = ufunc(found[at[old]], piece[old], dtype=op.dtype)
        there[at] = True
    whole = np.moveaxis(found, 0, op.axis)
    lead = (slice(None),) * op.axis
    return {
        b: np.ascontiguousarray(whole[(*lead, slice(made.cuts[b] - first, made.cuts[b + 1] - first))])
        for b in mesh.blocks_of(worker)
    }


def _slices(starts: ND, length: int, op: Segments) -> tuple[ND, ND]:
    """Where slices begin and end: at the next start; one that does not come before that has one element."""
    low = starts.astype(np.int64, copy=False)
    if (wrong := (low < 0) | (low >= length)).any():
        raise IndexError(f"index {low[wrong][0]} out-of-bounds in {op.fn}.reduceat [0, {length})")
    after = np.append(low[1:], length)
    return low, np.where(after > low, after, low + 1)


def _reduced(ufunc: np.ufunc, x: ND, low: ND, high: ND, dtype: np.dtype[Any]) -> ND:
    """The reductions of slices of the first axis, none of them empty."""
    if not low.size:
        return np.empty((0, *x.shape[1:]), dtype)
    if high[-1] == len(x) and (high[:-1] == low[1:]).all():  # one after the other
        return ufunc.reduceat(x, low, axis=0, dtype=dtype)
    # Every second of these is a slice. No start may be the end: a row more that belongs to none.
    every = np.stack([low, high], axis=1).reshape(-1)
    return ufunc.reduceat(np.concatenate([x, x[-1:]]), every, axis=0, dtype=dtype)[::2]
