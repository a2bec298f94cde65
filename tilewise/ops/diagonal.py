"""Diagonals. In: a node, two of its axes, where the diagonal starts. Out: its elements, along a new last axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import (
    Grid,
    Interval,
    Layout,
    Mesh,
    Shard,
    divided,
    owned_box,
    runs,
    slice_cuts,
)
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.rule import Options, Rule, axis_cuts, cutting_both, on_grid, specific, still_partial
from tilewise.records import dataclass


@dataclass(frozen=True)
class Diagonal(Op):
    """x[..., starts[0] + k, ..., starts[1] + k, ...] for k below `length`, with k as the last axis."""

    axes: tuple[int, int]
    starts: tuple[int, int]
    length: int
    name = "diagonal"

    def numpy(self, *arrays: Any) -> Any:
        part = [slice(None)] * arrays[0].ndim
        for axis, start in zip(self.axes, self.starts, strict=True):
            part[axis] = slice(start, start + self.length)
        return np.diagonal(arrays[0][tuple(part)], 0, *self.axes).copy()


def diagonal(node: Node, axes: tuple[int, int], starts: tuple[int, int], length: int) -> Node:
    """The diagonal that starts at these indices of two axes."""
    shape = (*(n for a, n in enumerate(node.dims) if a not in axes), length)
    return intern(Diagonal(axes, starts, length), (node,), shape, node.dtype)


@on_block.register(Diagonal)
def _(op: Diagonal, out: Part, ins: Sequence[Part]) -> Op:
    low, high = out.box[-1]
    if low == high:
        return replace(op, starts=(0, 0), length=0)
    starts = [start + low - ins[0].box[axis][0] for axis, start in zip(op.axes, op.starts, strict=True)]
    return replace(op, starts=(starts[0], starts[1]), length=high - low)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Diagonal)
def _(op: Diagonal, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from still_partial(have[0])
    base = node.inputs[0]
    for axis, size in enumerate(base.shape):
        if size < 2:
            continue
        kept = axis not in op.axes
        start = 0 if kept else op.starts[op.axes.index(axis)]
        at = axis - sum(a < axis for a in op.axes) if kept else node.ndim - 1
        for cuts in axis_cuts(have[0], axis, size, mesh):
            yield Rule((Shard(axis, cuts),), Shard(at, cuts if kept else slice_cuts(cuts, start, 1, op.length)))


@on_grid.register(Diagonal)
def _(op: Diagonal, node: Node, have: Sequence[Sequence[Layout]], mesh: Mesh) -> Iterator[Rule]:
    """Both axes are cut: a block has the part of the diagonal that runs through it."""
    shape = node.inputs[0].shape
    for x in cutting_both(have[0], shape, op.axes, mesh):
        sets = [_through(op, x, shape, mesh, block) for block in range(mesh.total_blocks)]
        yield Rule((x,), divided(node.ndim - 1, sets))


def _through(op: Diagonal, layout: Grid, shape: tuple[int, ...], mesh: Mesh, block: int) -> Interval:
    """The part of the diagonal that a block has."""
    box = owned_box(layout, shape, mesh, block=block)
    low, high = 0, op.length
    for axis, start in zip(op.axes, op.starts, strict=True):
        ((first, last),) = runs(box[axis])
        low, high = max(low, first - start), min(high, last - start)
    return low, max(low, high)
