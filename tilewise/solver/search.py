"""Minimise a problem, with a proof. In: a Problem. Out: a Solution, whose certificate `check.check` verifies.

The steps, each only if those before it do not suffice: eliminate variables one by one; make the problem smaller, bound
it by message passing and branch (branch.py); the same under limits, if the cheapest assignment breaks one (limits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from .branch import Search
from .certificate import Certificate, Order
from .eliminate import Elimination
from .kernelise import Kernel
from .limits import LimitedSearch, lighter
from .order import elimination_order
from .problem import INF, Infeasible, Ints, Problem, cost_of, fits
from .tables import Tables

DIRECT = 14.0  # log2 of entries: up to here variables are eliminated at once
ROOM = 1 << 57  # Sums of all tables stay below, with all their scales.
FINEST = 1 << 16  # parts of a unit that message passing may move


@dataclass(frozen=True)
class Solution:
    """An assignment, what it costs, and a bound that no assignment goes below, with its proof."""

    values: tuple[int, ...]
    cost: int
    bound: int
    proof: Certificate
    method: str

    @property
    def proved(self) -> bool:
        return self.cost == self.bound

    @property
    def gap(self) -> float:
        """How much cheaper than this anything could be, as a part of the cost."""
        return (self.cost - self.bound) / max(abs(self.cost), 1)


def solve(problem: Problem, seconds: float | None = None, start: Sequence[int] | None = None) -> Solution:
    """The cheapest assignment. With `seconds`, the best found by then and a proven bound; `start` is one to begin with.

    >>> solve(Problem([np.array([0, 3]), np.array([2, 0])], {(0, 1): np.array([[0, 5], [5, 0]])})).values
    (0, 0)
    """
    deadline = None if seconds is None else perf_counter() + seconds
    safe = _Safe(problem)
    solution = None
    found = elimination_order([len(table) for table in problem.unary], problem.pairs, DIRECT)
    if found is not None:
        done = Elimination(safe.unary, safe.pairs, found[0])
        values = tuple(done.values())
        proof = Certificate((Order(found[0]),), ceiling=safe.ceiling)
        solution = _solution(problem, values, done.bound, proof, "elimination")
    elif not problem.limits:
        solution = _search(problem, safe, deadline, start, limited=False)
    if solution is None or not fits(problem, solution.values):
        solution = _search(problem, safe, deadline, start, limited=True)
    return solution


class _Safe:
    """A problem's tables, cut down so that no sum of them overflows: what is forbidden costs more than any plan."""

    def __init__(self, problem: Problem) -> None:
        tables = {id(table): table for table in (*problem.unary, *problem.pairs.values())}
        count = len(problem.unary) + len(problem.pairs)
        flat = np.concatenate([table.ravel() for table in tables.values()]) if tables else np.zeros(1, np.int64)
        self.ceiling = int(flat.max())
        self._peak = max(self.ceiling, -int(flat.min())) * count
        self.unary: Sequence[Ints] = problem.unary
        self.pairs: Mapping[tuple[int, int], Ints] = problem.pairs
        if self.ceiling >= INF:
            spans = {key: _span(table) for key, table in tables.items()}
            self.ceiling = 1 + sum(spans[id(table)] for table in (*problem.unary, *problem.pairs.values()))
            self._peak = self.ceiling * count
            self._map(lambda table: np.minimum(table, self.ceiling))
        if self._peak >= ROOM:
            raise ValueError(f"The costs are too large to be added, got up to {self._peak // count} in {count} tables.")

    def _map(self, change: Callable[[Ints], Ints]) -> None:
        done: dict[int, Ints] = {}  # by identity: what was shared stays shared

        def once(table: Ints) -> Ints:
            if id(table) not in done:
                done[id(table)] = change(table)
            return done[id(table)]

        self.unary = [once(table) for table in self.unary]
        self.pairs = {edge: once(table) for edge, table in self.pairs.items()}

    def scale(self) -> int:
        """Multiply all costs, so that message passing can move parts of a unit. Returns the factor."""
        factor = FINEST
        while factor > 1 and self._peak * factor >= ROOM:
            factor //= 2
        self._map(lambda table: table * factor)
        return factor


def _span(table: Ints) -> int:
    """The most that a table's choice can matter, without what is forbidden."""
    allowed = table[table < INF]
    return int(allowed.max()) - min(int(allowed.min()), 0) if len(allowed) else 0


def _search(problem: Problem, safe: _Safe, deadline: float | None, start: Sequence[int] | None, limited: bool) -> Solution:
    ceiling, factor = safe.ceiling, safe.scale()
    search = LimitedSearch(factor, deadline, problem.limits) if limited else Search(factor, deadline)
    for guess in (start, _lightest(problem) if limited else None):
        if guess is not None:
            cost = sum(int(t[v]) for t, v in zip(safe.unary, guess, strict=True))
            cost += sum(int(t[guess[i], guess[j]]) for (i, j), t in safe.pairs.items())
            search.offer(cost, lambda guess=guess: dict(enumerate(guess)))
    kernel = Kernel(safe.unary, safe.pairs, Tables(), lighter(problem.limits) if limited else None)
    steps, bound = search.explore(kernel)
    if search.cost is None:
        raise Infeasible(_tightest(problem))
    values = tuple(search.values[v] for v in range(len(problem.unary)))
    proof = Certificate(tuple(steps), factor, ceiling, hard=limited)
    method = "limits" if limited else "branch" if search.nodes > 1 else "kernel"
    return _solution(problem, values, -(-bound // factor), proof, method)


def _solution(problem: Problem, values: tuple[int, ...], bound: int, proof: Certificate, method: str) -> Solution:
    cost = cost_of(problem, values)
    if cost >= INF:
        raise Infeasible("every assignment takes a forbidden value")
    return Solution(values, cost, min(bound, cost), proof, method)


def _lightest(problem: Problem) -> list[int]:
    """The least use of each variable, the sum over limits."""
    total = [np.zeros(len(table), dtype=np.int64) for table in problem.unary]
    for limit in problem.limits:
        for v, use in limit.use.items():
            total[v] = total[v] + use
    return [int(use.argmin()) for use in total]


def _tightest(problem: Problem) -> str:
    """What to say when nothing fits: the limit whose least use takes most of its budget."""

    def least(k: int) -> int:
        return sum(int(use.min()) for use in problem.limits[k].use.values())

    worst = max(range(len(problem.limits)), key=lambda k: least(k) - problem.limits[k].budget)
    return f"no assignment fits; limit {worst} allows {problem.limits[worst].budget} and needs at least {least(worst)}"
