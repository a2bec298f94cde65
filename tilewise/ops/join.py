"""Joining and reshaping. In: nodes. Out: one node with their elements in new places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.order import Order, joined_order
from tilewise.ops.elementwise import cast, strideless


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
