"""Cholesky's factor of one matrix. In: a node. Out: a node; and, on a mesh, the layouts of a factorisation in blocks.

A matrix that is cut stays where it is. From the left to the right, a block of columns at a time: the diagonal block is
factored everywhere, the panel below it where its rows are, and the rest is updated in place. What moves is the diagonal
block, and the panel to those that have its columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tilewise import rounding
from tilewise.ir.node import Node, Op, intern
from tilewise.layout import (
    Cuts,
    Grid,
    Layout,
    Mesh,
    Outside,
    Placement,
    Replicate,
    Shard,
    even_cuts,
    grid_layout,
    shards,
    slice_cuts,
)
from tilewise.ops.elementwise import cast
from tilewise.ops.traits.rule import Options, Rule, axis_cuts, inner_exchanges, specific
from tilewise.ops.traits.work import LAPACK_FLOPS, Work, work
from tilewise.records import dataclass

BLOCKS_PER_WORKER = 2  # along the line, or the longer side of the grid
MAX_BLOCKS = 64  # more make plans longer, and nothing faster


@dataclass(frozen=True)
class Cholesky(Op):
    """np.linalg.cholesky of one matrix, n by n."""

    n: int
    name = "cholesky"

    def numpy(self, *arrays: Any) -> Any:
        return np.linalg.cholesky(arrays[0])


def cholesky(x: Node, dtype: np.dtype[Any]) -> Node:
    """The lower factor."""
    return intern(Cholesky(x.shape[0]), (cast(x, dtype),), x.shape, dtype)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blank(Op):
    """Zeros in the place of an array."""

    name = "zeros"

    def numpy(self, *arrays: Any) -> Any:
        return np.zeros(arrays[0].shape, arrays[0].dtype)


@dataclass(frozen=True)
class Panel(Op):
    """The rows of the factor below a diagonal block of it: x such that x @ diagonal.conj().T is what is given."""

    name = "panel"

    def numpy(self, *arrays: Any) -> Any:
        diagonal, below = arrays
        return np.linalg.solve(diagonal.conj(), below.T).T


def blocks(n: int, mesh: Mesh) -> Cuts:
    """Where the columns are cut; into one block if that is all that is worth while."""
    longest = max(mesh.rows, mesh.columns) if mesh.grid else mesh.workers
    most = min(n // rounding.CHOLESKY_MIN_BLOCK, BLOCKS_PER_WORKER * longest, MAX_BLOCKS)
    return even_cuts(n, most if most > 1 and mesh.workers > 1 else 1)


def part(layout: Layout, starts: tuple[int, int], lengths: tuple[int, int]) -> Layout:
    """The layout of a part of a matrix whose elements stay where they are."""
    return _each(
        layout, lambda p: Shard(p.axis, slice_cuts(p.cuts, starts[p.axis], 1, lengths[p.axis])), lambda axis: True
    )


def by_rows(layout: Layout) -> Layout:
    """The layout in which everyone has the whole of the rows that it had a part of."""
    return _each(layout, lambda p: p, lambda axis: axis == 0)


def by_columns(layout: Layout) -> Layout:
    """The layout of a panel's rows in which everyone has those whose numbers are the numbers of its columns."""
    return _each(layout, lambda p: Shard(0, p.cuts), lambda axis: axis == 1)


def flipped(layout: Layout) -> Layout:
    """The layout of a transpose."""
    return _each(layout, lambda p: Shard(1 - p.axis, p.cuts), lambda axis: True)


def _each(layout: Layout, change: Callable[[Shard], Shard], keeps: Callable[[int], bool]) -> Layout:
    """A layout with its cuts changed, of those axes that it keeps cut."""

    def one(p: Placement) -> Placement:
        return (change(p) if keeps(p.axis) else Replicate()) if isinstance(p, Shard) else p

    assert not isinstance(layout, Outside)
    return grid_layout(one(layout.down), one(layout.across)) if isinstance(layout, Grid) else one(layout)


@dataclass(frozen=True)
class Turn:
    """One block of columns: where it begins and ends, and the layouts around it."""

    layout: Layout
    n: int
    low: int
    high: int

    @property
    def width(self) -> int:
        return self.high - self.low

    @property
    def left(self) -> int:
        """Rows and columns that are still to be done after this block."""
        return self.n - self.high

    @property
    def diagonal(self) -> Layout:
        return part(self.layout, (self.low, self.low), (self.width, self.width))

    @property
    def below(self) -> Layout:
        return part(self.layout, (self.high, self.low), (self.left, self.width))

    @property
    def rest(self) -> Layout:
        return part(self.layout, (self.high, self.high), (self.left, self.left))

    def exchanges(self) -> list[tuple[Layout, Layout, tuple[int, ...]]]:
        """What moves, from where to where."""
        found: list[tuple[Layout, Layout, tuple[int, ...]]] = [
            (self.diagonal, Replicate(), (self.width, self.width)),
        ]
        if self.left:
            panel = (self.left, self.width)
            found.append((self.below, by_rows(self.below), panel))
            found.append((by_rows(self.below), by_columns(self.rest), panel))
        return found


def turns(n: int, layout: Layout, mesh: Mesh) -> list[Turn]:
    """The steps of a factorisation."""
    cuts = blocks(n, mesh)
    return [Turn(layout, n, low, high) for low, high in pairwise(cuts)]


@specific.register(Cholesky)
def _(op: Cholesky, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    n = node.shape[0]
    for axis in (0, 1) if len(blocks(n, mesh)) > 2 else ():
        for cuts in axis_cuts(have[0], axis, n, mesh):
            yield Rule((Shard(axis, cuts),), Shard(axis, cuts))


@inner_exchanges.register(Cholesky)
def _(op: Cholesky, node: Node, rule: Rule, mesh: Mesh) -> list[tuple[Layout, Layout, tuple[int, ...]]]:
    return [way for turn in turns(op.n, rule.out, mesh) for way in turn.exchanges()] if shards(rule.out) else []


@work.register(Cholesky)
def _(op: Cholesky, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(flops=LAPACK_FLOPS * size * op.n)


@work.register(Panel)
def _(op: Panel, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(flops=LAPACK_FLOPS * sum(map(math.prod, shapes)) * shapes[0][-1])
