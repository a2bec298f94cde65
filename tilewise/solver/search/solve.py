"""Minimise a problem, with a proof. In: a Problem. Out: a Solution, whose certificate `check.check` verifies.

The steps, each only if those before it do not suffice: eliminate variables one by one; make the problem smaller, bound
it by message passing and branch (branch.py); the same under limits, if the cheapest assignment breaks one (limits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np

from tilewise.records import dataclass
from tilewise.solver.problem import INF, Infeasible, Ints, Limit, Problem, cost_of, fits
from tilewise.solver.proof.certificate import Certificate, Order, Step
from tilewise.solver.search.branch import FEW, Search
from tilewise.solver.search.eliminate import Elimination
from tilewise.solver.search.lagrange import price
from tilewise.solver.search.limits import LimitedSearch, lighter
from tilewise.solver.search.order import elimination_order
from tilewise.solver.search.shrink import Kernel
from tilewise.solver.search.tables import Tables

DIRECT = 14.0  # log2 of entries: up to here variables are eliminated at once
DIRECT_IN_ALL = 19.5  # the same for all tables together (some 2 ms)
ROOM = 1 << 57  # Sums of all tables stay below, with all their scales.
FORBIDDEN = "Every assignment takes a forbidden value."
Start = Callable[[], Sequence[int]]
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


def solve(problem: Problem, seconds: float | None = None, start: Start | None = None) -> Solution:
    """The cheapest assignment. With `seconds`, the best found by then and a proven bound; `start` makes a first one.

    >>> solve(Problem([np.array([0, 3]), np.array([2, 0])], {(0, 1): np.array([[0, 5], [5, 0]])})).values
    (0, 0)
    """
    begin = perf_counter()
    sizes = [len(table) for table in problem.unary]
    if 0 in sizes:
        raise Infeasible(f"Variable {sizes.index(0)} has no values.")
    safe = _Safe(problem, partial(_known, problem, start))
    order = elimination_order(sizes, problem.pairs, DIRECT, DIRECT_IN_ALL)
    if order is not None:
        done = Elimination(safe.unary, safe.pairs, order)
        proof = safe.certificate(Order(order))
        free = _solution(problem, done.values(), safe.bound(done.bound), proof, "elimination")
    else:
        share = 0.5 if problem.limits else 1.0
        deadline = None if seconds is None else begin + seconds * share
        free = _search(problem, safe, Search(safe.factor, safe.most, deadline), start)
    if fits(problem, free.values):
        return free
    return _limited(problem, safe, free, begin, seconds, start)


def _limited(
    problem: Problem, safe: _Safe, free: Solution, begin: float, seconds: float | None, start: Start | None
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
        proof = safe.certificate(*priced.steps, scale=safe.factor, prices=priced.prices)
        bounds.append((safe.bound(priced.bound, safe.factor), proof))
        if (first := priced.values) is not None:
            start = partial(list, first)
    found = _search(problem, safe, search, start)
    bound, proof = max([*bounds, (found.bound, found.proof)], key=lambda pair: pair[0])
    return replace(found, bound=min(bound, found.cost), proof=proof)


class _Safe:
    """A problem's tables, cut down so that no sum of them overflows: what is forbidden costs more than any plan.

    Nothing better than a known assignment has an entry above its cost, so tables are cut there. If even then they are
    too large to be added, their last bits go (which only lowers costs).
    """

    def __init__(self, problem: Problem, known: Callable[[], int | None]) -> None:
        tables = {id(table): table for table in (*problem.unary, *problem.pairs.values())}
        count = len(problem.unary) + len(problem.pairs)
        flat = np.concatenate([table.ravel() for table in tables.values()]) if tables else np.zeros(1, np.int64)
        self.ceiling = int(flat.max())
        self.shift = 0
        self.unary: Sequence[Ints] = problem.unary
        self.pairs: Mapping[tuple[int, int], Ints] = problem.pairs
        most = self.ceiling * count if self.ceiling > 0 else 0
        peak = max(self.ceiling, -int(flat.min()), 1) * count
        if self.ceiling >= INF or peak >= ROOM:
            place = {key: at for at, key in enumerate(tables)}
            every = [place[id(table)] for table in (*problem.unary, *problem.pairs.values())]
            starts = np.cumsum([0, *(table.size for table in tables.values())])[:-1]
            allowed = np.where(flat < INF, flat, 0)
            lows = np.minimum(np.minimum.reduceat(allowed, starts), 0).tolist()
            highs = np.maximum(np.maximum.reduceat(allowed, starts), 0).tolist()
            low, most = (sum([ends[at] for at in every]) for ends in (lows, highs))
            cost = known()
            most = most if cost is None else min(most, cost)
            tops = np.maximum.reduceat(flat, starts).tolist()
            tops = [max(min(top, 1 + most - low), -least) for top, least in zip(tops, lows, strict=True)]
            peak = sum([tops[at] for at in every])
            self.shift = (peak // ROOM).bit_length()
            most, low = most >> self.shift, (low >> self.shift) - (count if self.shift else 0)
            if 1 + most - low << self.shift > INF:
                raise ValueError(f"The costs are too large to be added, got up to {self.ceiling}.")
            self.ceiling = 1 + most - low << self.shift
            cut = np.minimum(flat, self.ceiling) >> self.shift
            parts = [
                cut[at : at + table.size].reshape(table.shape)
                for at, table in zip(starts.tolist(), tables.values(), strict=True)
            ]
            self.unary = [parts[at] for at in every[: len(problem.unary)]]
            self.pairs = dict(zip(problem.pairs, [parts[at] for at in every[len(problem.unary) :]], strict=True))
        self.factor = min(FINEST, 1 << max(ROOM // max(peak, 1), 1).bit_length() - 1)
        self.most = most * self.factor  # Any assignment that costs more is not better than what is known.

    def certificate(
        self, *steps: Step, scale: int = 1, prices: tuple[int, ...] = (), hard: bool = False
    ) -> Certificate:
        return Certificate(steps, scale, self.ceiling, self.shift, prices, hard)

    def bound(self, shown: int, scale: int = 1) -> int:
        """A bound of the problem from one of its tables times a scale."""
        return -(-shown // scale) << self.shift

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


def _search(problem: Problem, safe: _Safe, search: Search, start: Start | None) -> Solution:
    unary, pairs = safe.scaled()
    limited = isinstance(search, LimitedSearch)
    for guess in (start and start(), _lightest(problem) if limited else None):
        if guess is not None:
            search.offer(cost_of(Problem(unary, pairs), guess), partial(dict, enumerate(guess)))
    kernel = Kernel(unary, pairs, Tables(), lighter(problem.limits) if limited else None)
    steps, bound = search.explore(kernel)
    if search.cost is None:
        raise Infeasible(_tightest(problem))
    proof = safe.certificate(*steps, scale=safe.factor, hard=limited)
    method = "limits" if limited else "branch" if search.nodes > 1 else "kernel"
    chosen = [search.values[v] for v in range(len(problem.unary))]
    return _solution(problem, chosen, safe.bound(bound, safe.factor), proof, method)


def _solution(problem: Problem, values: Sequence[int], bound: int, proof: Certificate, method: str) -> Solution:
    cost = cost_of(problem, values)
    if cost >= INF // 2 and _forbidden(problem, values):  # Some costs may be negative.
        raise Infeasible(FORBIDDEN)
    return Solution(tuple(values), cost, min(bound, cost), proof, method)


def _known(problem: Problem, start: Start | None) -> int | None:
    """The cost of an assignment to begin with, if it is one that fits."""
    values = start and start()
    if values is None or not fits(problem, values) or _forbidden(problem, values):
        return None
    return cost_of(problem, values)


def _forbidden(problem: Problem, values: Sequence[int]) -> bool:
    """Whether an assignment takes a forbidden value."""
    alone = any(int(table[value]) >= INF for table, value in zip(problem.unary, values, strict=True))
    return alone or any(int(table[values[i], values[j]]) >= INF for (i, j), table in problem.pairs.items())


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
