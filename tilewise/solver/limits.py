"""Search under hard limits. In: a kernel and its limits. Out: the best assignment found, and a proof of a bound.

As in branch.py, with three differences: values that break a limit by themselves go; limited variables are not
eliminated, and only lighter values dominate them (kernelise.py); a node is finished by the frontier search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .branch import Proof, Search, extended
from .certificate import Frontier as FrontierStep
from .dual import Dual
from .frontier import Frontier
from .kernelise import Kernel
from .problem import Ints, Limit

BEAM = 64  # states: enough for a first plan
WIDTH = 4096  # states: more, and branching is cheaper


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

    def __init__(self, unit: int, deadline: float | None, limits: Sequence[Limit]) -> None:
        super().__init__(unit, deadline)
        self.limits = limits
        self._uses = [{v: use.tolist() for v, use in limit.use.items()} for limit in limits]

    def fits(self, values: dict[int, int]) -> bool:
        return all(
            sum(use[values[v]] for v, use in uses.items()) <= limit.budget
            for limit, uses in zip(self.limits, self._uses, strict=True)
        )

    def offer(self, cost: int, values: Callable[[], dict[int, int]]) -> None:
        if self.cost is None or cost < self.cost:
            found = values()
            if self.fits(found):
                self.cost, self.values = cost, found

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
                over = {at for at, a in enumerate(kernel.left[v]) if use[a] > most}
                if over:
                    gone = True
                    kernel.unfit(v, over)
                    if room < 0:
                        return None
        return gone

    def finish(self, kernel: Kernel, names: list[int], unary: list[Ints], pairs: dict[tuple[int, int], Ints]) -> None:
        return None

    def branch(self, kernel: Kernel, bound: int) -> Proof:
        if not self.reduce(kernel):
            return kernel.steps, self.enough()
        names, unary, pairs = kernel.flat()
        place = {v: at for at, v in enumerate(names)}
        limits = [
            Limit(limit.budget, {place[v]: use[list(kernel.left[v])] for v, use in limit.use.items()})
            for limit in self.limits
        ]
        frontier = Frontier(Dual(unary, pairs), limits, kernel.constant)
        for width in (BEAM, WIDTH):
            found = frontier.search(self.enough(), width)
            if found.values is not None:
                self.offer(found.cost, lambda: extended(kernel, names, found.values or ()))
            if found.bound >= self.enough():
                return [*kernel.steps, FrontierStep(names)], found.bound
        if self.late():
            return [*kernel.steps, FrontierStep(names)], found.bound
        return super().branch(kernel, bound)
