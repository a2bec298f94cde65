"""Search under hard limits. In: a kernel and its limits. Out: the best assignment found, and a proof of a bound.

As in branch.py, with three differences: values that break a limit by themselves go; limited variables are not
eliminated, and only lighter values dominate them (shrink.py); the frontier search keeps the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewise.solver.problem import Limit
from tilewise.solver.search.branch import Proof, Search
from tilewise.solver.search.shrink import Kernel

BEAM = 64  # states of the frontier search: enough for a good plan
MOST = 2_000  # variables: at the root, a first plan is looked for in problems up to here


def lighter(limits: Sequence[Limit]) -> dict[int, NDArray[np.bool_]]:
    """For each limited variable, [a, b]: whether b uses no more than a in every limit."""
    found: dict[int, NDArray[np.bool_]] = {}
    seen: set[tuple[int, int]] = set()
    for limit in limits:
        for v, use in limit.use.items():
            if (v, id(use)) not in seen:
                seen.add((v, id(use)))
                matrix = use[:, None] >= use
                found[v] = found[v] & matrix if v in found else matrix
    return found


class LimitedSearch(Search):
    """A search whose assignments satisfy every limit."""

    def __init__(self, unit: int, most: int, deadline: float | None, limits: Sequence[Limit]) -> None:
        super().__init__(unit, most, deadline)
        self.limits = [limit for limit in limits if limit.use]
        self._uses = [{v: use.tolist() for v, use in limit.use.items()} for limit in self.limits]

    def fits(self, values: dict[int, int]) -> bool:
        return all(
            sum(use[values[v]] for v, use in uses.items()) <= limit.budget
            for limit, uses in zip(self.limits, self._uses, strict=True)
        )

    def offer(self, cost: int, values: Callable[[], dict[int, int]]) -> None:
        if cost < self.enough():
            found = values()
            if self.fits(found):
                self.cost, self.values = cost, found

    def offer_soon(self, cost: int, values: Callable[[], dict[int, int]]) -> Callable[[], None]:
        self.offer(cost, values)  # Whether they fit must be known at once.
        return lambda: None

    def first_plan(self, kernel: Kernel) -> None:
        if self.nodes == 1 and len(kernel.unary) <= MOST:  # Message passing alone hardly finds plans that fit.
            self.frontier(kernel, BEAM)

    def reduce(self, kernel: Kernel) -> bool:
        while True:
            kernel.reduce()
            unfit = self._unfit(kernel)
            if unfit is None or not unfit:
                return unfit is not None

    def _unfit(self, kernel: Kernel) -> bool | None:
        """Values that break a limit even if all others use their least go. Whether any did; None if none is left."""
        gone = False
        for limit, uses in zip(self.limits, self._uses, strict=True):
            least = {v: min([use[a] for a in kernel.left[v]]) for v, use in uses.items()}
            room = limit.budget - sum(least.values())
            for v, use in uses.items():
                most = least[v] + room
                over = [at for at, a in enumerate(kernel.left[v]) if use[a] > most]
                if over:
                    gone = True
                    if not kernel.over({v: over}):
                        return None
        return gone

    def finish(self, kernel: Kernel, widest: float) -> Proof | None:
        return None  # Elimination knows no limits.

    def standing(self, kernel: Kernel, names: list[int]) -> list[Limit]:
        place = {v: at for at, v in enumerate(names)}
        return [
            Limit(limit.budget, {place[v]: use[list(kernel.left[v])] for v, use in limit.use.items()})
            for limit in self.limits
        ]

    def weight(self, kernel: Kernel, v: int) -> int:
        """How much a choice of v decides: what it leaves of the budgets."""
        standing = list(kernel.left[v])
        return max((int(np.ptp(limit.use[v][standing])) for limit in self.limits if v in limit.use), default=-1)
