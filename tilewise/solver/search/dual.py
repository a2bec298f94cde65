"""Lower bounds by message passing. In: a pairwise problem. Out: the same problem with costs moved, its bound, values.

Costs are moved between tables and variables (a reparametrisation); no assignment changes its cost, and the sum of the
least entries of all tables is a lower bound, exact in integers whatever was moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewise.solver.problem import Ints
from tilewise.solver.proof.certificate import Move
from tilewise.solver.search.sweeps import bound, settle, slack, sweep

SETTLE = 20  # rounds of local search, at most


def _starts(counts: Ints) -> Ints:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


class Dual:
    """A problem in flat arrays. Edges (i, j) have i < j; sweeps go in the order of the numbers."""

    def __init__(self, unary: Sequence[Ints], pairs: Mapping[tuple[int, int], Ints]) -> None:
        self.edges = list(pairs)
        ends = self.ends = np.array(self.edges, dtype=np.int64).reshape(-1, 2)
        self.size = np.array([len(table) for table in unary], dtype=np.int64)
        starts = _starts(self.size)
        self.at = starts[:-1].copy()
        self.start = _starts(self.size[ends[:, 0]] * self.size[ends[:, 1]])
        self.unary: Ints = np.concatenate(unary)
        self.tables: Ints = np.concatenate([pairs[edge].ravel() for edge in self.edges] or [self.at[:0]])
        self._before = self.tables.copy()
        forward = self._halves(ends[:, 0], ends[:, 1], down=True)
        backward = self._halves(ends[:, 1], ends[:, 0], down=False)
        both = [np.concatenate(pair) for pair in zip(forward, backward, strict=True)]
        counts = [np.bincount(ends[:, end], minlength=len(unary)) for end in (0, 1)]
        self.share = np.maximum(counts[0], counts[1]).astype(np.int64)
        ahead, behind = self._sorted(forward), self._sorted(backward)
        behind[0] += len(self.edges)  # Its half-edges follow those of the other run.
        self._directed = [np.concatenate(pair) for pair in zip(ahead, behind, strict=True)]
        self.half_edges = self._sorted(both)
        self._part = np.empty(int(self.size.max(initial=0)), dtype=np.int64)

    def _halves(self, near: Ints, far: Ints, down: bool) -> list[Ints]:
        """(near node, far node, table, stride of the near value, stride of the far value)."""
        one = np.ones_like(near)
        strides = (self.size[far], one) if down else (one, self.size[near])
        return [near, far, self.start[:-1], *strides]

    def _sorted(self, halves: Sequence[Ints]) -> list[Ints]:
        order = np.argsort(halves[0], kind="stable")
        first = _starts(np.bincount(halves[0], minlength=len(self.size)))
        return [first, *(np.ascontiguousarray(column[order]) for column in halves[1:])]

    def sweep(self, rounds: int) -> None:
        """Forward and back, so many times."""
        costs = (self.share, self.unary, self.tables, self._part)
        sweep(rounds, len(self.size), self.size, self.at, *self._directed, *costs)

    def bound(self) -> int:
        return bound(len(self.size), len(self.edges), self.size, self.at, self.start, self.unary, self.tables)

    def round(self) -> Ints:
        """An assignment: best values one after another, then improved one by one."""
        values = np.zeros(len(self.size), dtype=np.int64)
        graph = (self.size, self.at, *self.half_edges, self.unary, self.tables)
        settle(len(self.size), SETTLE, *graph, values)
        return values

    def cost(self, values: Ints) -> int:
        rows, columns = values[self.ends[:, 0]], values[self.ends[:, 1]]
        places = self.start[:-1] + rows * self.size[self.ends[:, 1]] + columns
        return int(self.unary[self.at + values].sum() + self.tables[places].sum())

    def slack(self) -> list[Ints]:
        """For each node and value, how far above the bound every assignment with it lies, at least."""
        excess = np.zeros_like(self.unary)
        slack(len(self.size), self.size, self.at, *self.half_edges, self.unary, self.tables, excess)
        return self._per_node(excess)

    def unaries(self) -> list[Ints]:
        return self._per_node(self.unary)

    def _per_node(self, flat: Ints) -> list[Ints]:
        return [flat[at : at + size] for at, size in zip(self.at.tolist(), self.size.tolist(), strict=True)]

    def matrices(self) -> list[Ints]:
        """The tables now, in the order of the edges."""
        starts, sizes = self.start.tolist(), self.size.tolist()
        return [
            self.tables[starts[e] : starts[e + 1]].reshape(sizes[i], sizes[j]) for e, (i, j) in enumerate(self.edges)
        ]

    def moves(self, names: Sequence[int]) -> list[Move]:
        """What went from each table to its variables, by the names of these."""
        moved = self._before - self.tables
        starts, sizes = self.start.tolist(), self.size.tolist()
        return [
            Move(
                names[i],
                names[j],
                moved[starts[e] : starts[e + 1] : sizes[j]] - moved[starts[e]],
                moved[starts[e] : starts[e] + sizes[j]],
            )
            for e, (i, j) in enumerate(self.edges)
        ]
