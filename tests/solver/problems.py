"""Problems for the tests of the solver: random ones small enough for brute force, and those of recorded programs."""

from __future__ import annotations

import numpy as np

from benchmarks.tilings.graphs import model, recorded, tight
from benchmarks.tilings.programs import Program
from tilewise.cost.model import FIXED, Rates
from tilewise.layout import Mesh
from tilewise.solver.model.budget import within
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


def problem_of(
    program: Program, mesh: Mesh | None = None, machine: Rates = FIXED, budget: float | None = None
) -> Problem:
    """The tiling problem of a program; with a budget, under limits that bind if there can be any (see `tight`)."""
    made = model(recorded(program), mesh or Mesh(8), machine, limited=budget is not None)
    memory = None if budget is None else tight(made, budget)
    return made.problem if memory is None else within(made, memory)
