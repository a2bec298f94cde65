"""Minimise a problem, with a proof. In: a Problem. Out: a Solution, whose certificate `check.check` verifies.

The steps, each only if those before it do not suffice: eliminate variables one by one; make the problem smaller, bound
it by message passing and branch (branch.py); the same under limits, if the cheapest assignment breaks one (limits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np

from .branch import FEW, Search
from .certificate import Certificate, Order
from .eliminate import Elimination
from .kernelise import Kernel
from .lagrange import price
from .limits import LimitedSearch, lighter
from .order import elimination_order
from .problem import INF, Infeasible, Ints, Limit, Problem, cost_of, fits
from .tables import Tables

DIRECT = 14.0  # log2 of entries: up to here variables are eliminated at once
ROOM = 1 << 57  # Sums of all tables stay below, with all their scales.
FORBIDDEN = "Every assignment takes a forbidden value."
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
    begin = perf_counter()
    sizes = [len(table) for table in problem.unary]
    if 0 in sizes:
        raise Infeasible(f"Variable {sizes.index(0)} has no values.")
    safe = _Safe(problem)
    order = elimination_order(sizes, problem.pairs, DIRECT)
    if order is not None:
        done = Elimination(safe.unary, safe.pairs, order)
        proof = Certificate((Order(order),), ceiling=safe.ceiling)
        free = _solution(problem, done.values(), done.bound, proof, "elimination")
    else:
        share = 0.5 if problem.limits else 1.0
        deadline = None if seconds is None else begin + seconds * share
        free = _search(problem, safe, Search(safe.factor, safe.most, deadline), start)
    if fits(problem, free.values):
        return free
    return _limited(problem, safe, free, begin, seconds, start)


def _limited(
    problem: Problem, safe: _Safe, free: Solution, begin: float, seconds: float | None, start: Sequence[int] | None
) -> Solution:
    """Where the cheapest assignment breaks a limit. Any bound without limits, or with prices for them, holds too."""
    if any(_least(limit) > limit.budget for limit in problem.limits):
        raise Infeasible(_tightest(problem))
    deadline = None if seconds is None else begin + seconds
    search = LimitedSearch(safe.factor, safe.most, deadline, problem.limits)
    bounds = [(free.bound, free.proof)]
    lightest = _lightest(problem)
    if len(problem.unary) > FEW and fits(problem, lightest):
        unary, pairs = safe.scaled()
        cost = cost_of(Problem(unary, pairs), lightest)
        priced = price(unary, pairs, problem.limits, cost, lambda: deadline is not None and perf_counter() > deadline)
        proof = Certificate(priced.steps, safe.factor, safe.ceiling, priced.prices)
        bounds.append((-(-priced.bound // safe.factor), proof))
        start = start or priced.values
    found = _search(problem, safe, search, start)
    bound, proof = max([*bounds, (found.bound, found.proof)], key=lambda pair: pair[0])
    return replace(found, bound=min(bound, found.cost), proof=proof)


class _Safe:
    """A problem's tables, cut down so that no sum of them overflows: what is forbidden costs more than any plan."""

    def __init__(self, problem: Problem) -> None:
        tables = {id(table): table for table in (*problem.unary, *problem.pairs.values())}
        count = len(problem.unary) + len(problem.pairs)
        flat = np.concatenate([table.ravel() for table in tables.values()]) if tables else np.zeros(1, np.int64)
        self.ceiling = int(flat.max())
        self.unary: Sequence[Ints] = problem.unary
        self.pairs: Mapping[tuple[int, int], Ints] = problem.pairs
        most = self.ceiling * count if self.ceiling > 0 else 0
        if self.ceiling >= INF:
            every = [id(table) for table in (*problem.unary, *problem.pairs.values())]
            spans = {key: _span(table) for key, table in tables.items()}
            most = sum(spans[key][1] for key in every)
            self.ceiling = 1 + most - sum(spans[key][0] for key in every)
            self.unary, self.pairs = _map(self.unary, self.pairs, lambda table: np.minimum(table, self.ceiling))
        peak = max(self.ceiling, -int(flat.min()), 1) * count
        if peak >= ROOM:
            raise ValueError(f"The costs are too large to be added, got up to {self.ceiling} in {count} tables.")
        self.factor = min(FINEST, 1 << (ROOM // max(peak, 1)).bit_length() - 1)
        self.most = most * self.factor  # Any assignment that costs more takes a forbidden value.

    def scaled(self) -> tuple[Sequence[Ints], Mapping[tuple[int, int], Ints]]:
        """All costs times `factor`, so that message passing can move parts of a unit."""
        return _map(self.unary, self.pairs, lambda table: table * self.factor)


def _map(
    unary: Sequence[Ints], pairs: Mapping[tuple[int, int], Ints], change: Callable[[Ints], Ints]
) -> tuple[Sequence[Ints], Mapping[tuple[int, int], Ints]]:
    """Change every table, once per object: what was shared stays shared."""
    done: dict[int, Ints] = {}

    def once(table: Ints) -> Ints:
        if id(table) not in done:
            done[id(table)] = change(table)
        return done[id(table)]

    return [once(table) for table in unary], {edge: once(table) for edge, table in pairs.items()}


def _span(table: Ints) -> tuple[int, int]:
    """The least and the most that a table can cost without what is forbidden, zero included."""
    allowed = table[table < INF]
    return min(int(allowed.min(initial=0)), 0), max(int(allowed.max(initial=0)), 0)


def _search(problem: Problem, safe: _Safe, search: Search, start: Sequence[int] | None) -> Solution:
    unary, pairs = safe.scaled()
    limited = isinstance(search, LimitedSearch)
    for guess in (start, _lightest(problem) if limited else None):
        if guess is not None:
            search.offer(cost_of(Problem(unary, pairs), guess), partial(dict, enumerate(guess)))
    kernel = Kernel(unary, pairs, Tables(), lighter(problem.limits) if limited else None)
    steps, bound = search.explore(kernel)
    if search.cost is None:
        raise Infeasible(_tightest(problem))
    proof = Certificate(tuple(steps), safe.factor, safe.ceiling, hard=limited)
    method = "limits" if limited else "branch" if search.nodes > 1 else "kernel"
    chosen = [search.values[v] for v in range(len(problem.unary))]
    return _solution(problem, chosen, -(-bound // safe.factor), proof, method)


def _solution(problem: Problem, values: Sequence[int], bound: int, proof: Certificate, method: str) -> Solution:
    cost = cost_of(problem, values)
    if cost >= INF // 2:  # Costs that are allowed sum to less than ROOM, but some may be negative.
        raise Infeasible(FORBIDDEN)
    return Solution(tuple(values), cost, min(bound, cost), proof, method)


def _lightest(problem: Problem) -> list[int]:
    """The least use of each variable, the sum over limits."""
    total = [np.zeros(len(table), dtype=np.int64) for table in problem.unary]
    for limit in problem.limits:
        for v, use in limit.use.items():
            total[v] = total[v] + use
    return [int(use.argmin()) for use in total]


def _least(limit: Limit) -> int:
    return sum(int(use.min()) for use in limit.use.values())


def _tightest(problem: Problem) -> str:
    """What to say when nothing fits: the limit whose least use leaves least of its budget."""
    if not problem.limits:
        return FORBIDDEN
    worst, limit = min(enumerate(problem.limits), key=lambda entry: entry[1].budget - _least(entry[1]))
    needs = f"its variables use at least {_least(limit)}"
    return f"No assignment fits: limit {worst} allows {limit.budget}, and {needs}. Allow more."
