"""Creation: arrays made from a rule. In: shapes and scalars. Out: nodes without data until someone needs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.order import Order
from tilewise.kernel.loops import Kernel, Output
from tilewise.kernel.native_support import DTYPES
from tilewise.layout import Ghosts, Interval, Layout, Mesh, Shard, Union, even_cuts
from tilewise.ops.const import const
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.ghosts import NO_GHOSTS, ghosts_made, ghosts_needed
from tilewise.ops.traits.lower import Loops, own_loops
from tilewise.ops.traits.rule import WHOLE, Options, Rule, specific
from tilewise.records import dataclass


@dataclass(frozen=True)
class Full(Op):
    """A scalar (the input) in every place."""

    shape: tuple[int, ...]
    order: Order
    name = "full"

    def numpy(self, *arrays: Any) -> Any:
        return np.full(self.shape, arrays[0], dtype=arrays[0].dtype)


@dataclass(frozen=True)
class Empty(Full):
    """Memory that is written before it is read; the input only tells its dtype."""

    name = "empty"

    def numpy(self, *arrays: Any) -> Any:
        return np.empty(self.shape, dtype=arrays[0].dtype)


@dataclass(frozen=True)
class Arange(Op):
    """start + i * step, as NumPy's arange computes it: from the first two values."""

    first: Any
    second: Any
    length: int
    dtype: np.dtype[Any]
    begin: int = 0
    parts: tuple[Interval, ...] = ()  # of a block in pieces: the indices that it has
    name = "arange"

    def numpy(self, *arrays: Any) -> Any:
        parts = self.parts or ((self.begin, self.begin + self.length),)
        count = np.concatenate([np.arange(low, high) for low, high in parts])
        if self.dtype.kind in "iu":
            return (self.first + count * (self.second - self.first)).astype(self.dtype)
        first, delta = self.dtype.type(self.first), self.dtype.type(self.second) - self.dtype.type(self.first)
        return (first + count.astype(self.dtype) * delta).astype(self.dtype)


@on_block.register(Full)
def _(op: Full, out: Part, ins: Sequence[Part]) -> Op:
    return replace(op, shape=out.dims)


@on_block.register(Arange)
def _(op: Arange, out: Part, ins: Sequence[Part]) -> Op:
    (held,) = out.held
    if isinstance(held, Union):
        return replace(op, length=out.dims[0], parts=held.runs)
    return replace(op, length=out.dims[0], begin=held[0])


def full(shape: tuple[int, ...], value: Node, order: Order = None) -> Node:
    """An array of one value."""
    return intern(Full(shape, order), (value,), shape, value.dtype, order)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], order: Order = None) -> Node:
    """An array that updates will fill completely."""
    return intern(Empty(shape, order), (const(dtype.type(0)),), shape, dtype, order)


def arange(first: Any, second: Any, length: int, dtype: np.dtype[Any]) -> Node:
    """Evenly spaced values."""
    return intern(Arange(first, second, length, dtype), (), (length,), dtype)


def is_new(node: Node) -> bool:
    """Whether a node is an array made of nothing, which any worker can make a part of for itself."""
    return isinstance(node.op, (Full, Arange))


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Full)
def _(op: Full, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    for axis, size in enumerate(node.shape):
        if size >= 2:
            yield Rule((WHOLE,), Shard(axis, even_cuts(size, mesh.total_blocks)))


@specific.register(Arange)
def _(op: Arange, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    if op.length >= 2:
        yield Rule((), Shard(0, even_cuts(op.length, mesh.total_blocks)))


@ghosts_needed.register(Full)
@ghosts_needed.register(Arange)
def _(op: Any, node: Node, out: Shard, ins: Sequence[Layout]) -> list[Ghosts] | None:
    return [NO_GHOSTS for _ in ins]


@ghosts_made.register(Full)
@ghosts_made.register(Arange)
def _(op: Any, node: Node, out: Shard, ins: Sequence[Layout]) -> tuple[Ghosts, list[Ghosts]]:
    return out.ghosts, [NO_GHOSTS for _ in ins]


@own_loops.register(Full)
def _(op: Full, node: Node) -> Loops | None:
    name = node.dtype.name
    if isinstance(op, Empty) or not node.known or not node.shape or not node.dtype.isnative or name not in DTYPES:
        return None
    if node.inputs[0].dtype != node.dtype:
        return None
    return Loops(Kernel((), (name,), (), (Output(0),), (False,) * node.ndim), (), (0,))
