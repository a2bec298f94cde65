"""A bound under limits, by charging for them. In: tables and limits. Out: a charge per limit, the bound that it gives.

Each limit's use is charged at a price instead of forbidden; for any prices the least cost, less what the budgets are
worth, is a lower bound. Prices rise where the cheapest assignment uses too much and fall where it uses less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilewise.records import dataclass
from tilewise.solver.problem import Ints, Limit
from tilewise.solver.proof.certificate import Step
from tilewise.solver.search.dual import Dual

ROUNDS = 150
SWEEPS = 3  # of message passing, per change of the prices
PATIENCE = 8  # rounds without a better bound before steps are halved
LARGEST = 1 << 56  # No price times use may be more.


@dataclass(frozen=True)
class Priced:
    """Prices, the bound they give (with the moves that show it), and the best assignment met that fits."""

    prices: tuple[int, ...]
    bound: int
    steps: tuple[Step, ...]
    values: list[int] | None


def price(
    unary: Sequence[Ints],
    pairs: Mapping[tuple[int, int], Ints],
    limits: Sequence[Limit],
    cost: int,
    late: Callable[[], bool],
) -> Priced:
    """Raise and lower prices for a while. `cost` is that of an assignment that fits."""
    dual = Dual(unary, pairs)
    limits = [limit if limit.use else Limit(limit.budget, {0: np.zeros_like(unary[0])}) for limit in limits]
    charges = [_Charge(dual, limit) for limit in limits]
    budgets = [limit.budget for limit in limits]
    prices = [0] * len(limits)
    best = (dual.bound(), tuple(prices), dual.tables.copy())
    values, pace, since = None, 1.0, 0
    for _ in range(ROUNDS):
        dual.sweep(SWEEPS)
        bound = dual.bound() - sum(p * b for p, b in zip(prices, budgets, strict=True))
        since += 1
        if bound > best[0]:
            best, since = (bound, tuple(prices), dual.tables.copy()), 0
        picked = dual.round()
        excess = [charge.used(picked) - charge.budget for charge in charges]
        if max(excess) <= 0:
            real = dual.cost(picked) - sum(p * (e + b) for p, e, b in zip(prices, excess, budgets, strict=True))
            if values is None or real < cost:
                cost, values = min(cost, real), picked.tolist()
        if since >= PATIENCE:
            pace, since = pace / 2, 0
        square = sum(float(e) ** 2 for e, p in zip(excess, prices, strict=True) if e > 0 or p > 0)
        if not square or bound >= cost or late():
            break
        for k, charge in enumerate(charges):
            raised = max(0, prices[k] + int(pace * (cost - bound) * excess[k] / square))
            raised = min(raised, LARGEST // charge.most)
            if raised != prices[k]:
                charge.add(raised - prices[k])
                prices[k] = raised
    dual.tables[:] = best[2]
    return Priced(best[1], best[0], tuple(dual.moves(range(len(unary)))), values)


class _Charge:
    """Where a limit's use lies in a dual's flat costs."""

    def __init__(self, dual: Dual, limit: Limit) -> None:
        self._costs = dual.unary
        self._starts = dual.at[list(limit.use)]
        self._variables = np.array(list(limit.use))
        self._use = np.concatenate(list(limit.use.values()))
        sizes = [len(use) for use in limit.use.values()]
        self._offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        self._places = np.concatenate([np.arange(s, s + n) for s, n in zip(self._starts, sizes, strict=True)])
        self.budget = limit.budget
        self.most = max(1, int(np.abs(self._use).max()))

    def used(self, values: Ints) -> int:
        return int(self._use[self._offsets + values[self._variables]].sum())

    def add(self, amount: int) -> None:
        self._costs[self._places] += amount * self._use
