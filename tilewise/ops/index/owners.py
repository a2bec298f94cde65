"""Who has what indices name. In: index arrays of a worker, the cuts of a base. Out: numbers of rows, and their owners.

Indices into several axes are one number each: the position in the line of all combinations (a row).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from tilewise.ir.node import Node
from tilewise.layout import Layout, Shard
from tilewise.ops.index.key import Together
from tilewise.ops.traits.collectives import ND, CollectiveCall, Parts, worker_cuts
from tilewise.ops.traits.rule import LETTERS, WHOLE

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


class Rows:
    """Rows of a base that is cut along one of the axes that a key indexes."""

    def __init__(self, call: CollectiveCall, key: Together) -> None:
        base = call.ins[0]
        assert isinstance(base.layout, Shard)
        self.key = key
        self.layout = base.layout
        self.lengths = tuple(base.shape[a] for a in key.axes)
        self.cut = base.layout.axis - key.first  # which of these axes
        self.edges = np.array(worker_cuts(base.layout.cuts, call.mesh))

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
        return np.searchsorted(self.edges, self._along(rows), side="right") - 1

    def _along(self, rows: ND) -> ND:
        """Indices into the axis that is cut."""
        inner = prod(self.lengths[self.cut + 1 :])
        return rows // inner % self.lengths[self.cut]

    def within(self, rows: ND, block: int) -> tuple[ND, tuple[ND | slice, ...]]:
        """Which of some rows a block has, and the index of these in it."""
        low, high = self.layout.owned(block)
        along = self._along(rows)
        mine = np.flatnonzero((low <= along) & (along < high))
        index = list(np.unravel_index(rows[mine], self.lengths))
        index[self.cut] = index[self.cut] - low
        return mine, (*[slice(None)] * self.key.first, *index)


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
