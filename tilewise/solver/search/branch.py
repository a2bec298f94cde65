"""Exact search by bounds. In: a kernel. Out: the best assignment found, and steps that prove a lower bound.

A node is made smaller (shrink.py), eliminated if that is cheap, else bounded by message passing. Values that cannot be
part of anything better than the best known go; if many did, it starts again, else it branches on one variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from time import perf_counter

import numpy as np

from tilewise.records import dataclass
from tilewise.solver.problem import Limit
from tilewise.solver.proof import certificate
from tilewise.solver.proof.certificate import Branch, Order, Step
from tilewise.solver.search import depth_first
from tilewise.solver.search.dual import Dual
from tilewise.solver.search.eliminate import Elimination
from tilewise.solver.search.frontier import Frontier
from tilewise.solver.search.order import elimination_order
from tilewise.solver.search.shrink import Kernel

NARROW = 15.0  # log2 of entries: the largest table that is made before any bound is known
IN_ALL = 22.5  # log2 of entries: tables of so many together are made however large they are (some 12 ms)
WIDE = 20.0  # the same where the alternative is to branch
FEW = 40  # variables: for more, partial assignments are not gone through
ENTRIES = 1 << 20  # of tables that a dive may look at (some 2 ms)
WIDTH = 1 << 14  # states: with more, branching is cheaper
DEEPEST = 150  # choices in a row, within what Python may nest; what is deeper stays open
MANY = 0.05  # of all values: so many must go for another round at the same node


@dataclass(frozen=True)
class Pace:
    """How long messages are passed: rounds between two looks at the bound; the last are those that close less of it."""

    rounds: int
    stall: float  # of the gap
    looks: int = 1 << 30  # at most


FIRST = Pace(5, 0.1, 3)  # before a dive
AT_ROOT = Pace(20, 0.002)  # where more rounds pay
WITHIN = Pace(20, 0.01)

Proof = tuple[list[Step], int]  # steps, and the bound that they show


class Search:
    """The best assignment so far, and how long to look for a better one.

    Costs are multiples of `unit`; what costs more than `most` takes a forbidden value.
    """

    def __init__(self, unit: int, most: int, deadline: float | None) -> None:
        self.unit = unit
        self.most = most
        self.deadline = deadline
        self.cost: int | None = None
        self.values: dict[int, int] = {}
        self.nodes = 0

    def late(self) -> bool:
        """Whether time is up. It is not before there is an assignment to return."""
        return self.cost is not None and self.deadline is not None and perf_counter() > self.deadline

    def offer(self, cost: int, values: Callable[[], dict[int, int]]) -> None:
        """An assignment was found; it is kept if it is better."""
        if cost < self.enough():
            self.cost, self.values = cost, values()

    def offer_soon(self, cost: int, values: Callable[[], dict[int, int]]) -> Callable[[], None]:
        """As `offer`, where better ones may follow soon: the values are made when the result is called."""
        if cost >= self.enough():
            return lambda: None
        self.cost = cost

        def settle() -> None:
            self.values = values()

        return settle

    def enough(self) -> int:
        """A bound of at least this shows that nothing is better than the best known."""
        return self.most + 1 if self.cost is None else self.cost - self.unit + 1

    def explore(self, kernel: Kernel, depth: int = 0) -> Proof:
        """A proof for a kernel, and the best assignment on the way."""
        self.nodes += 1
        first = depth == 0 and len(kernel.unary) <= FEW  # A bound and a dive are cheaper than making it smaller.
        while True:
            if not first:
                if not self.reduce(kernel):
                    return kernel.steps, self.enough()
                proof = self.finish(kernel, NARROW)
                if proof is not None:
                    return proof
            names, unary, pairs = kernel.flat()
            dual = Dual(unary, pairs)
            pace = FIRST if first else AT_ROOT if depth == 0 else WITHIN
            bound = self._bound(kernel, names, dual, pace)
            moves = dual.moves(names)
            if bound >= self.enough() or self.late():
                return [*kernel.steps, *moves], bound
            if len(names) <= FEW:
                order = self.dive(kernel, names, dual)
                if order is not None:
                    return [*kernel.steps, *moves, certificate.Frontier(order)], self.enough()
            kernel.move(moves, dict(zip(names, dual.unaries(), strict=True)), dual.matrices())
            if len(names) > FEW:
                self.first_plan(kernel)
            gap = self.enough() - bound
            over = {v: np.flatnonzero(s >= gap).tolist() for v, s in zip(names, dual.slack(), strict=True)}
            if not kernel.over({v: places for v, places in over.items() if places}):
                return kernel.steps, self.enough()
            if not first and sum(map(len, over.values())) < MANY * len(dual.unary):
                proof = self.last(kernel, bound, depth)
                if proof is not None:
                    return proof
            first = False

    def dive(self, kernel: Kernel, names: list[int], dual: Dual) -> list[int] | None:
        """Search depth first for something better. The order, if nothing better than the best is left."""
        limits = self.standing(kernel, names)
        found = depth_first.search(dual, limits, kernel.constant, self.enough(), self.unit, ENTRIES)
        if found.values is not None:
            self.offer(found.cost, partial(extended, kernel, names, found.values))
        return None if found.order is None else [names[v] for v in found.order]

    def first_plan(self, kernel: Kernel) -> None:
        """Look for a good plan where rounding may not have found one."""

    def reduce(self, kernel: Kernel) -> bool:
        """Make a kernel smaller. Whether any assignment is left."""
        kernel.reduce()
        return True

    def finish(self, kernel: Kernel, widest: float) -> Proof | None:
        """Solve a kernel outright by elimination, if no table grows too large."""
        names, unary, pairs = kernel.flat()
        order = elimination_order([len(table) for table in unary], pairs, widest, IN_ALL)
        if order is None:
            return None
        done = Elimination(unary, pairs, order)
        cost = done.bound + kernel.constant
        self.offer(cost, lambda: extended(kernel, names, done.values()))
        return [*kernel.steps, Order([names[v] for v in order])], cost

    def _bound(self, kernel: Kernel, names: list[int], dual: Dual, pace: Pace) -> int:
        """Message passing until the gap is closed, or hardly gets smaller."""
        bound = dual.bound() + kernel.constant
        known, settle = self.cost, None
        for look in count(1):
            dual.sweep(pace.rounds)
            values = dual.round()
            offered = self.offer_soon(
                dual.cost(values) + kernel.constant, partial(extended, kernel, names, values.tolist())
            )
            known, settle = (self.cost, offered) if self.cost != known else (known, settle)
            before, bound = bound, dual.bound() + kernel.constant
            gap = self.enough() - bound
            if gap <= 0 or bound - before <= pace.stall * gap or look >= pace.looks or self.late():
                break
        if settle is not None:
            settle()
        return bound

    def last(self, kernel: Kernel, bound: int, depth: int) -> Proof | None:
        """What is done when bounds do not help any more: all partial assignments if they are few, else branching.

        None if a better assignment was found, with which bounds may help again.
        """
        if not self.reduce(kernel):
            return kernel.steps, self.enough()
        if len(kernel.unary) <= FEW:
            known = self.cost
            shown = self.frontier(kernel, WIDTH)
            if shown >= self.enough() or (self.late() and shown > bound):
                return [*kernel.steps, certificate.Frontier(sorted(kernel.unary))], shown
            if self.cost != known:
                return None
        return self.finish(kernel, WIDE) or self.branch(kernel, bound, depth)

    def frontier(self, kernel: Kernel, width: int) -> int:
        """Search all partial assignments, up to `width` at a time. The bound that this shows."""
        names, unary, pairs = kernel.flat()
        found = Frontier(unary, pairs, self.standing(kernel, names), kernel.constant).search(self.enough(), width)
        if found.values is not None:
            self.offer(found.cost, partial(extended, kernel, names, found.values))
        return found.bound

    def standing(self, kernel: Kernel, names: list[int]) -> list[Limit]:
        """The limits over the values that stand, variables by their places."""
        return []

    def weight(self, kernel: Kernel, v: int) -> int:
        """How much a choice of v decides: what its tables can cost."""
        return sum(int(np.ptp(table)) for table in kernel.near[v].values()) if len(kernel.unary[v]) > 1 else -1

    def branch(self, kernel: Kernel, bound: int, depth: int) -> Proof:
        """One part per value of the variable with most weight; the cheapest first."""
        v = max(kernel.unary, key=lambda v: (self.weight(kernel, v), len(kernel.near[v]), -v))
        costs = kernel.unary[v] - kernel.unary[v].min()
        parts, least = [], 1 << 62
        for place in np.argsort(costs, kind="stable").tolist():
            twin = kernel.copy()
            twin.drop(v, [a for a in range(len(costs)) if a != place])
            steps: list[Step] = []
            shown = bound + int(costs[place])
            if shown < self.enough() and not self.late() and depth < DEEPEST:
                steps, shown = self.explore(twin, depth + 1)
            parts.append(((kernel.left[v][place],), tuple(steps)))
            least = min(least, shown)
        return [*kernel.steps, Branch(v, tuple(parts))], least


def extended(kernel: Kernel, names: list[int], places: Sequence[int]) -> dict[int, int]:
    """All values, from the places of the kernel's."""
    return kernel.extend({v: kernel.left[v][place] for v, place in zip(names, places, strict=True)})
