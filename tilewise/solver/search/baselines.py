"""Two ways to compare with. In: a Problem. Out: an assignment.

`greedy` is Spartan's: groups of nodes in order of connectivity. `brute_force` looks at every assignment.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewise.solver.problem import INF, Infeasible, Ints, Problem

MOST = 1 << 22  # assignments that brute force looks at


def greedy(problem: Problem) -> tuple[int, ...]:
    """Variables with most neighbours first; each takes what is cheapest if all around it did their best for it.

    What a neighbour has taken already stays; one that has not may still take any value. Limits are not looked at.
    """
    near: list[list[tuple[int, Ints]]] = [[] for _ in problem.unary]
    for (i, j), table in problem.pairs.items():
        near[i].append((j, table))
        near[j].append((i, table.T))
    values: dict[int, int] = {}
    for v in sorted(range(len(near)), key=lambda v: (-len(near[v]), v)):
        costs = problem.unary[v]
        for w, table in near[v]:
            best = table[:, values[w]] if w in values else (table + problem.unary[w]).min(axis=1)
            costs = np.minimum(costs + best, INF)
        values[v] = int(costs.argmin())
    return tuple(values[v] for v in range(len(near)))


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
