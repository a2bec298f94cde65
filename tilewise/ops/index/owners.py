"""Who has what indices name. In: index arrays of a worker, the cuts of a base. Out: numbers of rows, and their owners.

Indices into several axes are one number each: the position in the line of all combinations (a row).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations
from math import prod

import numpy as np

from tilewise.ir.node import Node
from tilewise.layout import (
    Layout,
    Mesh,
    Shard,
    even_shard,
    grid_layout,
    length,
    lines,
    owned_box,
    runs,
    shards,
)
from tilewise.ops.index.key import Together
from tilewise.ops.traits.collectives import ND, CollectiveCall, Operand, Parts, worker_cuts
from tilewise.ops.traits.rule import LETTERS, WHOLE, axis_cuts

Shape = tuple[int, ...]


def named_shape(shapes: Sequence[Shape]) -> Shape:
    """The shape that index arrays have together."""
    return np.broadcast_shapes(*shapes)


def letters_of(base: Node, index: Sequence[Node], key: Together) -> tuple[list[str], str]:
    """Letters of a base and of index arrays, and of what they select."""
    term = LETTERS[: base.ndim]
    own = LETTERS[base.ndim : base.ndim + max(x.ndim for x in index)]
    terms = [term, *(own[len(own) - x.ndim :] for x in index)]
    return terms, term[: key.first] + own + term[key.axes[-1] + 1 :]


def cut_along(index: Sequence[Node], axis: int, both: Shape, cuts: tuple[int, ...]) -> list[Layout]:
    """Layouts of index arrays for an axis of what they have together: those that do not have it are whole."""
    out: list[Layout] = []
    for x in index:
        k = axis - (len(both) - x.ndim)
        out.append(Shard(k, cuts) if k >= 0 and x.shape[k] == both[axis] else WHOLE)
    return out


def base_layouts(base: Node, key: Together, have: Sequence[Layout], mesh: Mesh) -> Iterator[Layout]:
    """Ways to cut a base along axes that a key indexes: one of them, or on a grid two."""
    for axis in key.axes:
        if base.shape[axis] >= 2:
            yield from (Shard(axis, cuts) for cuts in axis_cuts(have, axis, base.shape[axis], mesh))
    if mesh.grid:
        for a, b in permutations(key.axes, 2):
            if base.shape[a] >= 2 <= base.shape[b]:
                yield grid_layout(even_shard(a, base.shape, mesh.down), even_shard(b, base.shape, mesh.across))


def rows_owned(base: Operand, key: Together, mesh: Mesh) -> list[int]:
    """How many of the rows that a key can name each worker has."""
    boxes = (owned_box(base.layout, base.shape, mesh, worker=w) for w in range(mesh.workers))
    return [prod(length(box[a]) for a in key.axes) for box in boxes]


def row_bytes(base: Operand, key: Together) -> int:
    """Bytes of what one combination of indices names."""
    return prod(n for a, n in enumerate(base.shape) if a not in key.axes) * base.dtype.itemsize


class Rows:
    """Rows of a base that is cut along axes that a key indexes."""

    def __init__(self, call: CollectiveCall, key: Together) -> None:
        base = call.ins[0]
        self.key = key
        self.base = base
        self.mesh = call.mesh
        self.lengths = tuple(base.shape[a] for a in key.axes)

    def numbers(self, index: Sequence[Parts], blocks: Sequence[int]) -> Iterator[ND]:
        """For each block, the rows that its index arrays name, in their shape."""
        for b in blocks:
            parts = [x[b] if b in x else x[-1] for x in index]
            given = [np.asarray(p) if isinstance(p, int) else parts[p[1]] for p in self.key.parts]
            shape = np.broadcast_shapes(*(x.shape for x in given))
            rows = np.zeros(shape, np.int64)
            for axis, x in enumerate(given):
                length = self.lengths[axis]
                rows = rows * length + (from_front(x, length, self.key.first + axis) if 0 not in shape else 0)
            yield rows

    def owners(self, rows: ND) -> ND:
        """The worker that has each row."""
        owner = np.zeros(rows.shape, np.int64)
        for part, line in lines(self.base.layout, self.mesh):
            assert isinstance(part, Shard)
            edges = worker_cuts(part.cuts, line)
            owner = owner * line.workers + np.searchsorted(edges, self._along(rows, part.axis), side="right") - 1
        return owner

    def _along(self, rows: ND, axis: int) -> ND:
        """Indices into an axis of the base."""
        k = axis - self.key.first
        return rows // prod(self.lengths[k + 1 :]) % self.lengths[k]

    def within(self, rows: ND, block: int) -> tuple[ND, tuple[ND | slice, ...]]:
        """Which of some rows a block has, and the index of these in it."""
        box = owned_box(self.base.layout, self.base.shape, self.mesh, block=block)
        mine = np.ones(rows.shape, bool)
        lows = [0] * len(self.lengths)
        for part in shards(self.base.layout):
            ((low, high),) = runs(box[part.axis])
            along = self._along(rows, part.axis)
            mine &= (low <= along) & (along < high)
            lows[part.axis - self.key.first] = low
        where = np.flatnonzero(mine)
        index = [i - low for i, low in zip(np.unravel_index(rows[where], self.lengths), lows, strict=True)]
        return where, (*[slice(None)] * self.key.first, *index)


def runs_of(owner: ND, workers: int) -> tuple[ND, list[slice]]:
    """An order in which what one worker owns is together, and these runs; within one the order stays."""
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(workers + 1)).tolist()
    return order, [slice(lo, hi) for lo, hi in pairwise(ends)]


def from_front(index: ND, length: int, axis: int) -> ND:
    """Indices that count from the front; NumPy's error if one is out of range."""
    wide = index.astype(np.int64)
    bad = (wide < -length) | (wide >= length)
    if bad.any():
        raise IndexError(f"index {wide[bad][0]} is out of bounds for axis {axis} with size {length}")
    return np.where(wide < 0, wide + length, wide)
