"""Selection by a mask over leading axes. In: a base, a mask. Out: a node whose length the mask decides.

Along the first axis, if it is cut: each block selects for itself; what workers then have is unequal, and is cut anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from tilewise.ir.node import Length, Node, Op, intern
from tilewise.layout import Layout, Mesh, Piecewise, Shard, even_shard
from tilewise.ops.index.interleaved import interleave, interleaved_traffic, order_of
from tilewise.ops.index.key import picked
from tilewise.ops.recut import EXCHANGES, recut, recut_traffic
from tilewise.ops.traits.collectives import (
    CollectiveCall,
    Exchanging,
    Operand,
    Parts,
    Traffic,
    exchange_rounds,
    traffic,
)
from tilewise.ops.traits.rule import (
    LETTERS,
    MAX_PIECES,
    Options,
    Rule,
    axis_cuts,
    by_letters,
    cutting_both,
    on_grid,
    specific,
)
from tilewise.records import dataclass


@dataclass(frozen=True)
class Compress(Op):
    """base[mask]: the elements (or rows) where the mask over the leading axes holds."""

    name = "compress"

    def numpy(self, *arrays: Any) -> Any:
        return picked(arrays[0], np.asarray(arrays[1]))


def compress(base: Node, mask: Node) -> Node:
    """base[mask]. The new axis has the mask's length, unknown until someone asks."""
    op = Compress()
    # The node's type names a Length; interning makes the same (base, mask) the same node and so the same Length.
    length = _length_of(mask)
    order = None  # as in NumPy: what is selected comes first, the other axes as they lie in the base
    if base.order is not None:
        order = (0, *(a - mask.ndim + 1 for a in base.order if a >= mask.ndim))
        order = None if order == tuple(range(len(order))) else order
    return intern(op, (base, mask), (length, *base.shape[mask.ndim :]), base.dtype, order)


_lengths: weakref.WeakKeyDictionary[Node, weakref.ref[Length]] = weakref.WeakKeyDictionary()


def _length_of(mask: Node) -> Length:
    """The one Length named by a mask, as long as anything has it."""
    ref = _lengths.get(mask)
    length = None if ref is None else ref()
    if length is None:
        length = Length(mask)
        _lengths[mask] = weakref.ref(length)
    return length


def counted(mask: Node) -> int | None:
    """How many elements a mask keeps, if that is known by now."""
    ref = _lengths.get(mask)
    length = None if ref is None else ref()
    return None if length is None else length.value


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Compress)
def _(op: Compress, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    base, mask = node.inputs
    letters = LETTERS[: base.ndim]
    yield from by_letters([letters, letters[: mask.ndim]], LETTERS[base.ndim] + letters[mask.ndim :], node, have, mesh)
    n = base.shape[0]
    if mesh.workers > 1 and n >= 2:
        even = even_shard(0, node.shape, mesh)
        for cuts in axis_cuts([*have[0], *have[1]], 0, n, mesh):
            yield Rule((Shard(0, cuts), Shard(0, cuts)), even, collective=True)
        if mask.ndim == 1:
            pieces = dict.fromkeys(p for p in (*have[1], *have[0]) if isinstance(p, Piecewise) and p.axis == 0)
            yield from _interleaved(list(pieces)[:MAX_PIECES], node, mesh)


@on_grid.register(Compress)
def _(op: Compress, node: Node, have: Sequence[Sequence[Layout]], mesh: Mesh) -> Iterator[Rule]:
    mask = node.inputs[1]
    for axes in combinations(range(mask.ndim), 2):
        yield from _interleaved(cutting_both((*have[1], *have[0]), mask.shape, axes, mesh), node, mesh)


def _interleaved(layouts: Sequence[Layout], node: Node, mesh: Mesh) -> Iterator[Rule]:
    """Blocks that lie between each other."""
    even = even_shard(0, node.shape, mesh)
    for x in layouts:
        if order_of(x, node.inputs[1].shape, mesh) is not None:
            yield Rule((x, x), even, collective=True)


@traffic.register(Compress)
def _(op: Compress, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """How many rows each worker has selected, to all; then the rows to where they belong."""
    if isinstance(ins[1].layout, Shard):
        return recut_traffic(ins[1], out, mesh, EXCHANGES)
    return interleaved_traffic(ins[1], out, mesh)


@exchange_rounds.register(Compress)
def _(op: Compress, call: CollectiveCall, worker: int, blocks: Parts, mask: Parts) -> Exchanging:
    selected = {b: op.numpy(blocks[b], mask[b]) for b in sorted(blocks)}
    if isinstance(call.ins[1].layout, Shard):
        return (yield from recut(call, worker, np.concatenate(list(selected.values()))))
    return (yield from interleave(call, worker, selected, mask))
