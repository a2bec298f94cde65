"""Joining and reshaping. In: nodes. Out: one node with their elements in new places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.order import Order, joined_order
from tilewise.kernel.loops import Kernel, Output
from tilewise.kernel.native import DTYPES
from tilewise.layout import Mesh, Shard, concat_cuts, even_cuts, split_cuts
from tilewise.ops.batch import Rolled, batch
from tilewise.ops.block import Part, on_block
from tilewise.ops.elementwise import cast, strideless
from tilewise.ops.lower import Loops, own_loops
from tilewise.ops.rule import LETTERS, WHOLE, Options, Rule, axis_cuts, by_letters, cuts_of, specific, still_partial


@dataclass(frozen=True)
class Concat(Op):
    """Arrays one after another along an axis."""

    axis: int
    name = "concatenate"

    def numpy(self, *arrays: Any) -> Any:
        return np.concatenate(arrays, axis=self.axis)


@dataclass(frozen=True)
class Reshape(Op):
    """The same elements in row-major (or column-major) order in another shape."""

    shape: tuple[int, ...]
    order: str
    name = "reshape"

    def numpy(self, *arrays: Any) -> Any:
        return np.reshape(arrays[0], self.shape, order=self.order)  # type: ignore[call-overload]


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


@on_block.register(Reshape)
@on_block.register(Broadcast)
def _(op: Reshape | Broadcast, out: Part, ins: Sequence[Part]) -> Op:
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


def reshape(node: Node, shape: tuple[int, ...], order: str) -> Node:
    """Reshape with its own memory."""
    memory: Order = None if order == "C" else tuple(range(len(shape) - 1, -1, -1)) if len(shape) > 1 else None
    return intern(Reshape(shape, order), (node,), shape, node.dtype, memory)


def copy(node: Node, order: Order) -> Node:
    """A copy in memory order `order`."""
    return intern(Copy(order), (node,), node.shape, node.dtype, order)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register
def _(op: Copy, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    yield from by_letters([term], term, node, have, mesh)
    yield from still_partial(have[0])


@specific.register
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


@specific.register
def _(op: Concat, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    for axis, size in enumerate(node.shape):
        if size < 2:
            continue
        cuts = even_cuts(size, mesh.total_blocks)
        if axis == op.axis:
            parts = concat_cuts(cuts, tuple(x.shape[axis] for x in node.inputs))
            yield Rule(tuple(Shard(axis, c) for c in parts), Shard(axis, cuts))
        else:
            terms = [term] * len(node.inputs)
            for chosen in cuts_of(term[axis], size, terms, [x.shape for x in node.inputs], have, node, mesh):
                yield Rule((Shard(axis, chosen),) * len(node.inputs), Shard(axis, chosen))


@specific.register
def _(op: Reshape, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from still_partial(have[0])
    if op.order != "C" or node.size == 0:
        return
    for i, o, inner_in, inner_out in _groups(node.inputs[0].shape, node.shape):
        size = node.inputs[0].shape[i]
        even = tuple(c * inner_out // inner_in for c in even_cuts(node.shape[o], mesh.total_blocks))
        for cuts in dict.fromkeys((*axis_cuts(have[0], i, size, mesh), even)):
            if cuts[-1] != size:
                continue
            to = split_cuts(tuple(c * inner_in for c in cuts), inner_out)
            if to is not None:
                yield Rule((Shard(i, cuts),), Shard(o, to))


def _groups(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Groups of axes with equal products: first axis on each side, and elements below it in the group."""
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == 1:
            i += 1
            continue
        if b[j] == 1:
            j += 1
            continue
        pa, pb, ei, ej = a[i], b[j], i + 1, j + 1
        while pa != pb:
            if pa < pb:
                pa *= a[ei]
                ei += 1
            else:
                pb *= b[ej]
                ej += 1
        yield i, j, pa // a[i], pb // b[j]
        i, j = ei, ej


# -- together with others, and as loops ------------------------------------------------------------------------------


@batch.register
def _(op: Copy, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    return ins[0].node


@own_loops.register
def _(op: Copy, node: Node) -> Loops | None:
    name = node.dtype.name
    if not node.known or not node.shape or not node.dtype.isnative or name not in DTYPES:
        return None
    if node.inputs[0].dtype != node.dtype:
        return None
    return Loops(Kernel((name,), (), (), (Output(0),), (False,) * node.ndim), (0,))
