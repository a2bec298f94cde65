"""Two ways to compare with. In: a Problem. Out: an assignment.

`greedy` is Spartan's: variables in an order, each takes what is cheapest given those before it. `brute_force` looks at
every assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewise.solver.problem import INF, Infeasible, Ints, Problem

MOST = 1 << 22  # assignments that brute force looks at


def greedy(problem: Problem, order: Sequence[int]) -> tuple[int, ...]:
    """Cheapest first, never going back; only values that leave room in every limit."""
    near: list[list[tuple[int, Ints]]] = [[] for _ in problem.unary]
    for (i, j), table in problem.pairs.items():
        near[i].append((j, table.T))
        near[j].append((i, table))
    room = [limit.budget - sum(int(use.min()) for use in limit.use.values()) for limit in problem.limits]
    values: dict[int, int] = {}
    for v in order:
        costs = problem.unary[v].astype(object)  # Sums of what is forbidden would overflow.
        for w, table in near[v]:
            if w in values:
                costs = costs + table[values[w]]
        limits = [(k, limit.use[v]) for k, limit in enumerate(problem.limits) if v in limit.use]
        open_ = [a for a in range(len(costs)) if all(use[a] - use.min() <= room[k] for k, use in limits)]
        if not open_:
            raise Infeasible(f"No value of variable {v} leaves room in every limit.")
        values[v] = min(open_, key=lambda a: costs[a])
        for k, use in limits:
            room[k] -= int(use[values[v]] - use.min())
    return tuple(values[v] for v in range(len(problem.unary)))


def brute_force(problem: Problem) -> tuple[int, ...]:
    """The first of the cheapest assignments, by looking at all."""
    sizes = [len(table) for table in problem.unary]
    if prod(sizes) > MOST:
        raise ValueError(f"Brute force looks at {MOST} assignments at most, got {prod(sizes)}.")

    def spread(table: NDArray[Any], *axes: int) -> NDArray[Any]:
        return table.reshape([sizes[v] if v in axes else 1 for v in range(len(sizes))])

    total = np.zeros(sizes, dtype=np.int64)
    allowed = np.ones(sizes, dtype=bool)
    tables = [((v,), table) for v, table in enumerate(problem.unary)]
    for axes, table in (*tables, *problem.pairs.items()):
        allowed &= spread(table < INF, *axes)
        total += spread(np.where(table < INF, table, 0), *axes)
    for limit in problem.limits:
        used = np.zeros([1] * len(sizes), dtype=np.int64)
        for v, use in limit.use.items():
            used = used + spread(use, v)
        allowed &= used <= limit.budget
    if not allowed.any():
        raise Infeasible("No assignment fits.")
    best = np.where(allowed, total, np.iinfo(np.int64).max).argmin()
    return tuple(int(place) for place in np.unravel_index(best, sizes))
