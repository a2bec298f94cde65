"""Joining, copying and repeating. In: nodes. Out: one node with their elements in new places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.order import Order, joined_order
from tilewise.kernel.loops import Kernel, Output
from tilewise.kernel.native_support import DTYPES
from tilewise.layout import Cutting, Mesh, Shard, bare, concat_cuts, divided, even_cuts, runs, union
from tilewise.ops.elementwise import cast, strideless
from tilewise.ops.reshape import reshape
from tilewise.ops.traits.batch import Rolled, batch
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.lower import Loops, own_loops
from tilewise.ops.traits.rule import (
    LETTERS,
    WHOLE,
    Options,
    Rule,
    axis_cuts,
    by_letters,
    cuts_of,
    specific,
    still_partial,
)
from tilewise.records import dataclass


@dataclass(frozen=True)
class Concat(Op):
    """Arrays one after another along an axis."""

    axis: int
    name = "concatenate"

    def numpy(self, *arrays: Any) -> Any:
        return np.concatenate(arrays, axis=self.axis)


@dataclass(frozen=True)
class Copy(Op):
    """The same values in memory of their own, in a given order of axes."""

    order: Order
    name = "copy"

    def numpy(self, *arrays: Any) -> Any:
        a = arrays[0]
        if self.order is None or len(self.order) != a.ndim:
            return a.copy(order="C")
        return a.transpose(self.order).copy(order="C").transpose(np.argsort(self.order))


@dataclass(frozen=True)
class Broadcast(Op):
    """np.broadcast_to."""

    shape: tuple[int, ...]
    name = "broadcast"

    def numpy(self, *arrays: Any) -> Any:
        return np.broadcast_to(arrays[0], self.shape)


@on_block.register(Broadcast)
def _(op: Broadcast, out: Part, ins: Sequence[Part]) -> Op:
    return replace(op, shape=out.dims)


def broadcast_view(node: Node, shape: tuple[int, ...]) -> Node:
    """The node repeated to a shape; itself if it has it."""
    if node.shape == shape:
        return node
    return intern(Broadcast(shape), (node,), shape, node.dtype)


def squeeze_leading(node: Node, ndim: int) -> Node:
    """Drop leading axes of length one until `ndim` are left."""
    return reshape(node, node.shape[node.ndim - ndim :], "C")


def concat(nodes: tuple[Node, ...], axis: int, dtype: np.dtype[Any]) -> Node:
    """Concatenate along `axis` (normalised); shapes were checked by the caller."""
    first = nodes[0].shape
    total = sum(n.shape[axis] for n in nodes)
    shape = (*first[:axis], total, *first[axis + 1 :])
    order = joined_order(len(shape), [(n.shape, None if strideless(n) else n.order) for n in nodes])
    return intern(Concat(axis), tuple(cast(n, dtype) for n in nodes), shape, dtype, order)


def copy(node: Node, order: Order) -> Node:
    """A copy in memory order `order`."""
    return intern(Copy(order), (node,), node.shape, node.dtype, order)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Copy)
def _(op: Copy, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    yield from by_letters([term], term, node, have, mesh, pieces=True)
    yield from still_partial(have[0])


@specific.register(Broadcast)
def _(op: Broadcast, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from still_partial(have[0])
    for axis, size in enumerate(node.shape):
        if size < 2:
            continue
        source = node.inputs[0]
        k = axis - (node.ndim - source.ndim)
        if k < 0 or source.shape[k] == 1:
            yield Rule((WHOLE,), Shard(axis, even_cuts(size, mesh.total_blocks)))
        else:
            for cuts in axis_cuts(have[0], k, size, mesh):
                yield Rule((Shard(k, cuts),), Shard(axis, cuts))


def _where_they_lie(op: Concat, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    """Operands cut along the axis as they are, or evenly: a block of the result has its part of each of them."""
    lengths = [x.shape[op.axis] for x in node.inputs]
    even: list[Cutting] = [Shard(op.axis, even_cuts(n, mesh.total_blocks)) for n in lengths]
    known = [[p for p in layouts if isinstance(p, Cutting) and p.axis == op.axis] for layouts in have]
    for ins in dict.fromkeys((tuple(even), tuple(some[0] if some else e for some, e in zip(known, even, strict=True)))):
        starts = list(accumulate(lengths, initial=0))
        sets = [
            union((s + low, s + high) for s, p in zip(starts, ins, strict=False) for low, high in runs(p.owned(block)))
            for block in range(mesh.total_blocks)
        ]
        yield Rule(tuple(bare(p) for p in ins), divided(op.axis, sets))


@specific.register(Concat)
def _(op: Concat, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    for axis, size in enumerate(node.shape):
        if size < 2:
            continue
        cuts = even_cuts(size, mesh.total_blocks)
        if axis == op.axis:
            parts = concat_cuts(cuts, tuple(x.shape[axis] for x in node.inputs))
            yield Rule(tuple(Shard(axis, c) for c in parts), Shard(axis, cuts))
            yield from _where_they_lie(op, node, have, mesh)
        else:
            terms = [term] * len(node.inputs)
            for chosen in cuts_of(term[axis], size, terms, [x.shape for x in node.inputs], have, node, mesh):
                yield Rule((Shard(axis, chosen),) * len(node.inputs), Shard(axis, chosen))


# -- together with others, and as loops ------------------------------------------------------------------------------


@batch.register(Copy)
def _(op: Copy, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    return ins[0].node


@own_loops.register(Copy)
def _(op: Copy, node: Node) -> Loops | None:
    name = node.dtype.name
    if not node.known or not node.shape or not node.dtype.isnative or name not in DTYPES:
        return None
    if node.inputs[0].dtype != node.dtype:
        return None
    return Loops(Kernel((name,), (), (), (Output(0),), (False,) * node.ndim), (0,))
