"""Reshaping. In: a node, a shape. Out: a node with the same elements in that shape, and what a mesh does about it.

An axis that is split or merged keeps its cuts where they fall between rows of both shapes. Where a cut falls inside of
a row, workers exchange the part of that row: both shapes are the same line of elements, which each cuts into runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.order import Order
from tilewise.ir.reductions import by_name
from tilewise.layout import (
    Cuts,
    Cutting,
    Grid,
    IndexSet,
    Layout,
    Mesh,
    Partial,
    Piecewise,
    Shard,
    column_cut,
    divided,
    even_cuts,
    merge_cuts,
    owned_box,
    runs,
    shards,
    split_cuts,
    union,
)
from tilewise.ops.traits.block import Part, on_block
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
from tilewise.ops.traits.rule import Options, Rule, axis_cuts, cutting_both, on_grid, specific, still_partial
from tilewise.records import dataclass

MAX_RUNS = 64  # intervals of a block: with more, workers would exchange many small pieces
MAX_GRID_RUNS = 2048  # of a block of a matrix that both directions of a grid cut: else half of the matrix moves


@dataclass(frozen=True)
class Reshape(Op):
    """The same elements in row-major (or column-major) order in another shape."""

    shape: tuple[int, ...]
    order: str
    name = "reshape"

    def numpy(self, *arrays: Any) -> Any:
        return np.reshape(arrays[0], self.shape, order=self.order)  # type: ignore[call-overload]


def reshape(node: Node, shape: tuple[int, ...], order: str) -> Node:
    """Reshape with its own memory."""
    memory: Order = None if order == "C" else tuple(range(len(shape) - 1, -1, -1)) if len(shape) > 1 else None
    return intern(Reshape(shape, order), (node,), shape, node.dtype, memory)


@on_block.register(Reshape)
def _(op: Reshape, out: Part, ins: Sequence[Part]) -> Op:
    return replace(op, shape=out.dims)


# -- on a mesh -----------------------------------------------------------------------------------------------------


class Group(NamedTuple):
    """Axes of both shapes with equal products: the first of each, and how many elements of the group a row has."""

    first: int
    out: int
    row: int
    out_row: int


def groups(a: Sequence[int], b: Sequence[int]) -> Iterator[Group]:
    """The smallest groups of axes in which one shape becomes another; axes of length one belong to none."""
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
        yield Group(i, j, pa // a[i], pb // b[j])
        i, j = ei, ej


@specific.register(Reshape)
def _(op: Reshape, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from still_partial(have[0])
    if op.order != "C" or node.size == 0:
        return
    source = node.inputs[0]
    for g in groups(source.shape, node.shape):
        yield from _repeated(g, source.shape, node.shape, have, mesh)
        size, new = source.shape[g.first], node.shape[g.out]
        yield from _in_pieces(g, size, have, mesh)
        even = tuple(c * g.out_row // g.row for c in even_cuts(new, mesh.total_blocks))
        for cuts in dict.fromkeys((*axis_cuts(have[0], g.first, size, mesh), even)):
            if cuts[-1] != size:
                continue
            to = split_cuts(merge_cuts(cuts, g.row), g.out_row)
            if to is not None:
                yield Rule((Shard(g.first, cuts),), Shard(g.out, to))
            elif mesh.workers > 1:
                for to in dict.fromkeys((_nearest(cuts, g), even_cuts(new, mesh.total_blocks))):
                    yield Rule((Shard(g.first, cuts),), Shard(g.out, to), collective=True)


def _in_pieces(g: Group, size: int, have: Options, mesh: Mesh) -> Iterator[Rule]:
    """Blocks that have intervals of whole rows of both shapes keep them."""
    found: list[Cutting] = [p for p in have[0] if isinstance(p, Piecewise) and p.axis == g.first]
    for cut in dict.fromkeys((*found, *(column_cut(g.first, size, mesh) for _ in range(mesh.grid)))):
        ends = [(low * g.row, high * g.row) for b in range(mesh.total_blocks) for low, high in runs(cut.owned(b))]
        if not any(low % g.out_row or high % g.out_row for low, high in ends):
            yield Rule((cut,), divided(g.out, [_scaled(cut.owned(b), g) for b in range(mesh.total_blocks)]))


def _scaled(s: IndexSet, g: Group) -> IndexSet:
    """Indices of the first axis of a group as those of the other shape's."""
    return union((low * g.row // g.out_row, high * g.row // g.out_row) for low, high in runs(s))


@on_grid.register(Reshape)
def _(op: Reshape, node: Node, have: Sequence[Sequence[Layout]], mesh: Mesh) -> Iterator[Rule]:
    """Two axes of one group are cut: a block has an interval of each row.

    It keeps these, if they are whole rows of the other shape. Else each block has some rows of the new shape with what
    others have of them left out: contributions that are placed side by side, which a sum adds up with the rest.
    """
    if op.order != "C" or node.size == 0:
        return
    source, new = node.inputs[0], node.shape
    for g in groups(source.shape, new):
        axes = [a for a, _ in _within(source.shape, g.first, source.shape[g.first] * g.row)]
        for outer, inner in combinations([g.first, *axes], 2):
            for grid in _cut_both(source.shape, (outer, inner), g, have[0], mesh):
                sets = _rows_of_blocks(grid, (outer, inner), source.shape, g, mesh)
                if sets is not None:
                    yield Rule((grid,), divided(g.out, sets))
                yield from _apart(grid, outer, g, node)
        yield from _folded(node, g, have[0], mesh)


def _cut_both(
    shape: tuple[int, ...], axes: tuple[int, int], g: Group, have: Sequence[Layout], mesh: Mesh
) -> Iterator[Grid]:
    """Layouts that cut two axes: those that an array may have, even ones, and near them such that no row is cut."""
    below = dict(_within(shape, g.first, shape[g.first] * g.row))[axes[1]]
    step = g.out_row // gcd(g.out_row, below)  # along the inner axis, rows of the other shape begin at multiples of it
    for grid in cutting_both(have, shape, axes, mesh):
        yield grid
        whole = [
            Shard(p.axis, _multiples(p.cuts, step)) if p.axis == axes[1] else p
            for p in shards(grid)
            if isinstance(p, Shard)
        ]
        yield Grid(*whole)


def _multiples(cuts: Cuts, step: int) -> Cuts:
    """Cuts at the nearest multiples."""
    return (0, *(min((c + step // 2) // step * step, cuts[-1]) for c in cuts[1:-1]), cuts[-1])


def _rows_of_blocks(
    grid: Layout, axes: tuple[int, int], shape: tuple[int, ...], g: Group, mesh: Mesh
) -> list[IndexSet] | None:
    """What blocks have of the rows of the other shape; None if rows are cut, or if that is too many intervals."""
    outer, inner = axes
    total = shape[g.first] * g.row
    below = {g.first: g.row, **dict(_within(shape, g.first, total))}
    span, period = below[outer] * shape[outer], below[inner] * shape[inner]
    out: list[IndexSet] = []
    for block in range(mesh.total_blocks):
        box = owned_box(grid, shape, mesh, block=block)
        ((first, last),), ((low, high),) = runs(box[outer]), runs(box[inner])
        low, high = low * below[inner], high * below[inner]
        count = total // span * ((last - first) * below[outer] // period)
        if count > MAX_GRID_RUNS or period % g.out_row or low % g.out_row or high % g.out_row:
            return None
        starts = (k for whole in range(0, total, span) for k in range(whole, whole + span, period))
        inside = range(first * below[outer], last * below[outer])
        out.append(union(((k + low) // g.out_row, (k + high) // g.out_row) for k in starts if k % span in inside))
    return out


def _apart(grid: Grid, outer: int, g: Group, node: Node) -> Iterator[Rule]:
    """Rows of blocks as contributions: what other blocks have of them is left out."""
    if outer != g.first or node.dtype.kind not in "iufc":
        return
    p = grid.down if isinstance(grid.down, Shard) and grid.down.axis == outer else grid.across
    assert isinstance(p, Shard)
    to = split_cuts(merge_cuts(p.cuts, g.row), g.out_row)
    if to is not None:
        rows, parts = Shard(g.out, to), Partial("placed")
        yield Rule((grid,), Grid(rows, parts) if p is grid.down else Grid(parts, rows))


def _folded(node: Node, g: Group, have: Sequence[Layout], mesh: Mesh) -> Iterator[Rule]:
    """Blocks that have just what an even grid of the new shape wants of each row."""
    pieces = [x for x in have if isinstance(x, Piecewise) and x.axis == g.first]
    if not pieces:
        return
    back = Group(g.out, g.first, g.out_row, g.row)
    axes = [a for a, _ in _within(node.shape, g.out, node.shape[g.out] * g.out_row)]
    for pair in combinations([g.out, *axes], 2):
        for grid in _cut_both(node.shape, pair, back, (), mesh):
            sets = _rows_of_blocks(grid, pair, node.shape, back, mesh)
            if sets is not None and divided(g.first, sets) in pieces:
                yield Rule((divided(g.first, sets),), grid)


@dataclass(frozen=True)
class Apart(Op):
    """A block within rows of which it has a part, with nothing where other blocks have the rest: to be added up."""

    shape: tuple[int, ...]  # of the rows
    starts: tuple[int, ...]  # of the block in them
    name = "apart"

    def numpy(self, *arrays: Any) -> Any:
        (x,) = arrays
        out = np.full(self.shape, by_name("placed").identity(x.dtype), x.dtype)
        out[tuple(slice(at, at + n) for at, n in zip(self.starts, x.shape, strict=True))] = x
        return out

    def label(self) -> str:
        return "with others' elements left out"


@on_block.register(Apart)
def _(op: Apart, out: Part, ins: Sequence[Part]) -> Op:
    starts = tuple(a[0] - b[0] if a[0] < a[1] else 0 for a, b in zip(ins[0].box, out.box, strict=True))
    return Apart(out.dims, starts)


def _repeated(g: Group, source: tuple[int, ...], new: tuple[int, ...], have: Options, mesh: Mesh) -> Iterator[Rule]:
    """An axis within a group is cut: of the other shape's first axis, a block has an interval for each row above."""
    for axis, inner in _within(source, g.first, source[g.first] * g.row):
        for cuts in axis_cuts(have[0], axis, source[axis], mesh):
            to = _intervals(cuts, source[g.first] * g.row, inner, g.out_row)
            if to is not None:
                yield Rule((Shard(axis, cuts),), divided(g.out, to))
    for axis, inner in _within(new, g.out, new[g.out] * g.out_row):
        cuts = even_cuts(new[axis], mesh.total_blocks)
        sets = _intervals(cuts, new[g.out] * g.out_row, inner, g.row)
        if sets is not None:
            yield Rule((divided(g.first, sets),), Shard(axis, cuts))


def _within(shape: tuple[int, ...], first: int, total: int) -> Iterator[tuple[int, int]]:
    """The axes of a group but for its first: which, and elements below one index of each."""
    below = total // shape[first]
    for axis in range(first + 1, len(shape)):
        if below == 1:
            return
        below //= shape[axis]
        if shape[axis] > 1:
            yield axis, below


def _intervals(cuts: Cuts, total: int, inner: int, row: int) -> list[IndexSet] | None:
    """What blocks of an axis with `inner` elements below have of rows of the other shape; None if rows are cut."""
    period = cuts[-1] * inner
    if total // period > MAX_RUNS or period % row or any(c * inner % row for c in cuts):
        return None
    return [
        union(((k + low * inner) // row, (k + high * inner) // row) for k in range(0, total, period))
        for low, high in pairwise(cuts)
    ]


def _nearest(cuts: Cuts, g: Group) -> Cuts:
    """Cuts of the other shape, each as near as can be to where these are."""
    return tuple((2 * c * g.row + g.out_row) // (2 * g.out_row) for c in cuts)


def _runs(source: Operand, out: Operand, mesh: Mesh) -> tuple[int, Cuts, Cuts]:
    """Lines that run through the group (one for each index of the axes before it), and where workers cut them."""
    assert isinstance(source.layout, Shard) and isinstance(out.layout, Shard)
    before, after = source.layout, out.layout
    g = next(g for g in groups(source.shape, out.shape) if g.first == before.axis and g.out == after.axis)
    given, taken = worker_cuts(before.cuts, mesh), worker_cuts(after.cuts, mesh)
    return prod(source.shape[: g.first]), merge_cuts(given, g.row), merge_cuts(taken, g.out_row)


@traffic.register(Reshape)
def _(op: Reshape, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """What a worker needs and has not."""
    _, given, taken = _runs(ins[0], out, mesh)
    length = given[-1]
    kept = sum(max(min(given[w + 1], taken[w + 1]) - max(given[w], taken[w]), 0) for w in range(mesh.workers))
    row = prod(out.shape) // length * out.dtype.itemsize
    return Traffic("boundary exchange", (length - kept) * row, (1,), exact=True)


@exchange_rounds.register(Reshape)
def _(op: Reshape, call: CollectiveCall, worker: int, blocks: Parts) -> Exchanging:
    source, out, mesh = call.ins[0], call.out, call.mesh
    assert isinstance(source.layout, Shard) and isinstance(out.layout, Shard)
    lines, given, taken = _runs(source, out, mesh)
    axis, after = source.layout.axis, out.layout
    mine = _joined([blocks[b] for b in sorted(blocks)], axis)
    length = given[worker + 1] - given[worker]
    mine = (
        mine.reshape(lines, length, -1) if length else mine.reshape(lines, 0, prod(source.shape) // (lines * given[-1]))
    )
    low = given[worker]
    inbox = yield [[mine[:, max(taken[w] - low, 0) : max(taken[w + 1] - low, 0)]] for w in range(mesh.workers)]
    found = _joined([piece for (piece,) in inbox], 1)
    edges = worker_cuts(after.cuts, mesh)
    dims = (*out.shape[: after.axis], edges[worker + 1] - edges[worker], *out.shape[after.axis + 1 :])
    whole = found.reshape(dims)
    lead, low = (slice(None),) * after.axis, edges[worker]
    return {
        b: np.ascontiguousarray(whole[(*lead, slice(after.cuts[b] - low, after.cuts[b + 1] - low))])
        for b in mesh.blocks_of(worker)
    }


def _joined(parts: Sequence[ND], axis: int) -> ND:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)
