"""Exact search by bounds. In: a kernel. Out: the best assignment found, and steps that prove a lower bound.

A node is made smaller (kernelise), eliminated if that is cheap, else bounded by message passing. Values that cannot be
part of anything better than the best known go; if some did, it starts again, else it branches on one variable.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from .certificate import Branch, Order, Step
from .dual import Dual
from .eliminate import Elimination
from .kernelise import Kernel
from .order import elimination_order
from .problem import Ints

NARROW = 20.0  # log2 of entries: the largest table that a node may make
CHUNK = 10  # rounds of message passing between two looks at the bound
STALL = 0.02  # of the gap: a chunk that closes less is the last of a node
FEW = 0.01  # of the gap: below this, rounds are not worth more


class Search:
    """The best assignment so far, and how long to look for a better one. Costs are multiples of `unit`."""

    def __init__(self, unit: int, deadline: float | None) -> None:
        self.unit = unit
        self.deadline = deadline
        self.cost: int | None = None
        self.values: dict[int, int] = {}
        self.nodes = 0

    def late(self) -> bool:
        return self.deadline is not None and perf_counter() > self.deadline

    def offer(self, cost: int, values: Callable[[], dict[int, int]]) -> None:
        if self.cost is None or cost < self.cost:
            self.cost, self.values = cost, values()

    def enough(self) -> int:
        """A bound of at least this shows that nothing is better than the best known."""
        return 1 << 62 if self.cost is None else self.cost - self.unit + 1

    def explore(self, kernel: Kernel, stall: float = STALL / 4) -> tuple[list[Step], int]:
        """The steps of a proof for a kernel, and the bound that they show."""
        self.nodes += 1
        while True:
            kernel.reduce()
            names, unary, pairs = kernel.flat()
            found = elimination_order([len(table) for table in unary], pairs, NARROW)
            if found is not None:
                return self._eliminate(kernel, names, unary, pairs, found[0])
            dual = Dual(unary, pairs)
            bound = self._bound(kernel, names, dual, stall)
            kernel.move(names, dual.unaries(), dict(zip(dual.edges, dual.matrices(), strict=True)))
            if bound >= self.enough() or self.late():
                return kernel.steps, bound
            slack = dual.slack()
            gone = {v: set(np.flatnonzero(s >= self.enough() - bound).tolist()) for v, s in zip(names, slack, strict=True)}
            gone = {v: places for v, places in gone.items() if places}
            if not gone:
                return self._branch(kernel, names, slack, bound)
            kernel.over(gone)
            if sum(map(len, gone.values())) < 0.05 * len(dual.unary):
                kernel.reduce()
                if len(kernel.unary) > 0.9 * len(names):
                    place = {v: at for at, v in enumerate(names)}
                    names = sorted(kernel.unary)
                    return self._branch(kernel, names, [kernel.unary[v] - kernel.unary[v].min() for v in names], bound)

    def _eliminate(
        self, kernel: Kernel, names: list[int], unary: list[Ints], pairs: dict[tuple[int, int], Ints], order: list[int]
    ) -> tuple[list[Step], int]:
        done = Elimination(unary, pairs, order)
        cost = done.bound + kernel.constant
        self.offer(cost, lambda: kernel.extend(_named(kernel, names, done.values())))
        return [*kernel.steps, Order([names[v] for v in order])], cost

    def _bound(self, kernel: Kernel, names: list[int], dual: Dual, stall: float) -> int:
        """Message passing until the gap is closed, or hardly gets smaller."""
        bound = dual.bound() + kernel.constant
        while True:
            dual.sweep(CHUNK)
            values = dual.round()
            self.offer(dual.cost(values) + kernel.constant, lambda: kernel.extend(_named(kernel, names, values)))
            before, bound = bound, dual.bound() + kernel.constant
            gap = self.enough() - bound
            if gap <= 0 or bound - before <= stall * gap or self.late():
                return bound

    def _branch(self, kernel: Kernel, names: list[int], slack: list[Ints], bound: int) -> tuple[list[Step], int]:
        """One part per value of the variable whose second best value costs most; the cheapest first."""
        scores = [(int(np.partition(s, 1)[1]) if len(s) > 1 else -1, len(kernel.near[v]), -v) for v, s in zip(names, slack, strict=True)]
        v = -max(scores)[2]
        costs = slack[names.index(v)]
        parts = []
        least = None
        for place in np.argsort(costs, kind="stable").tolist():
            value = kernel.left[v][place]
            twin = kernel.copy()
            twin.drop(v, {a for a in range(len(costs)) if a != place})
            shown = bound + int(costs[place])
            steps: list[Step] = []
            if shown < self.enough() and not self.late():
                steps, shown = self.explore(twin, STALL)
            parts.append(((value,), tuple(steps)))
            least = shown if least is None else min(least, shown)
        assert least is not None
        return [*kernel.steps, Branch(v, tuple(parts))], least


def _named(kernel: Kernel, names: list[int], places: list[int] | Ints) -> dict[int, int]:
    return {v: kernel.left[v][int(place)] for v, place in zip(names, places, strict=True)}
