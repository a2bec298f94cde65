"""Random problems for the tests of the solver. In: seeds. Out: Problems small enough for brute force."""

from __future__ import annotations

import numpy as np

from tilewise.solver.problem import INF, Limit, Problem


def random_problem(
    seed: int,
    variables: int = 7,
    values: int = 4,
    density: float = 0.5,
    limits: int = 0,
    forbidden: float = 0.0,
    lowest: int = 0,
) -> Problem:
    """Costs between `lowest` and 20 with many ties; a share of the entries forbidden; limits that often bind."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, values + 1, variables)

    def table(*shape: int) -> np.ndarray:
        costs = rng.integers(lowest, 20, shape)
        return np.where(rng.random(shape) < forbidden, INF, costs)

    unary = [table(size) for size in sizes]
    pairs = {
        (i, j): table(sizes[i], sizes[j])
        for i in range(variables)
        for j in range(i + 1, variables)
        if rng.random() < density
    }
    bounds = []
    for _ in range(limits):
        chosen = sorted(rng.choice(variables, size=min(variables, 4), replace=False).tolist())
        use = {v: rng.integers(0, 10, sizes[v]) for v in chosen}
        least = sum(int(u.min()) for u in use.values())
        bounds.append(Limit(least + int(rng.integers(0, 8)), use))
    return Problem(unary, pairs, bounds)
