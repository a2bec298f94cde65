"""Nothing near a solver's plan is cheaper, and what a plan costs is what its nodes and pieces say it does."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.tilings.graphs import recorded
from benchmarks.tilings.programs import Op, Program, random_program
from tests.solver.replay import Replay, plan_cost
from tilewise.cost.model import FIXED, Rates
from tilewise.layout import Mesh, OnDriver
from tilewise.solver.model.graph import Use, graph_of
from tilewise.solver.model.model import Model, model_of
from tilewise.solver.problem import INF, cost_of
from tilewise.solver.proof.check import check
from tilewise.solver.search.solve import solve

MESHES = (Mesh(2), Mesh(4), Mesh(7), Mesh(3, 3), Mesh(4, 1, 2), Mesh(8, 1, 4))
MACHINES = (FIXED, replace(FIXED, objective="bytes"), replace(FIXED, latency=0.0))
PROGRAMS = 1000
WHOLE = 5  # pairs of changes are replayed as a whole that often at first, then ever more rarely


def small(program: Program) -> Program:
    """The same program on arrays whose pieces can be listed."""
    sides = {64: 6, 1_000: 30, 20_000: 60}
    ops = (replace(op, shape=tuple(sides.get(n, n) for n in op.shape)) for op in program.ops)
    return Program(program.name, tuple(Op(op.kind, op.inputs, op.shape, op.axis) for op in ops))


def model_for(seed: int) -> tuple[Model, list[Use]]:
    mesh, machine = MESHES[seed % len(MESHES)], MACHINES[seed % len(MACHINES)]
    return build(small(random_program(seed, 4 + seed % 9)), mesh, machine)


def build(program: Program, mesh: Mesh, machine: Rates) -> tuple[Model, list[Use]]:
    nodes, wanted = recorded(program)
    graph = graph_of(nodes, {n for n in nodes if n.value is not None})
    ends = [graph.at[w] for w in wanted]
    sources = [(OnDriver(),) for n in nodes if n.value is not None]
    return model_of(graph, ends, sources, mesh, machine), ends


Change = tuple[tuple[int, int], ...]  # variables, and the values they get


def changes(model: Model, values: tuple[int, ...], pairs: bool) -> Iterator[Change]:
    """All changes of one variable, or of two."""
    others = [[(v, x) for x in range(len(table)) if x != values[v]] for v, table in enumerate(model.problem.unary)]
    yield from ((change,) for row in others for change in row)
    for i, j in itertools.combinations(range(len(others)) if pairs else (), 2):
        yield from itertools.product(others[i], others[j])


class Near:
    """Plans near one: whether they are possible, and what they cost, replayed."""

    def __init__(self, seed: int) -> None:
        self.model, self.ends = model_for(seed)
        self.best = solve(self.model.problem)
        self.replay = Replay(self.model, self.ends)
        self.base = {i: self.replay.cost(i, self.best.values) for i in self.replay.items}
        self.around = [[edge for edge in self.model.problem.pairs if v in edge] for v in range(len(self.best.values))]

    def changed(self, change: Change) -> list[int]:
        values = list(self.best.values)
        for v, x in change:
            values[v] = x
        return values

    def possible(self, change: Change, values: list[int]) -> bool:
        unary, pairs = self.model.problem.unary, self.model.problem.pairs
        return all(
            unary[v][x] < INF and all(pairs[i, j][values[i], values[j]] < INF for i, j in self.around[v])
            for v, x in change
        )

    def dearer(self, change: Change, values: list[int]) -> int:
        """How much more the changed plan costs."""
        items = {i for v, _ in change for i in self.replay.touched[v]}
        return sum(self.replay.cost(i, values) - self.base[i] for i in items)


@pytest.mark.parametrize("seed", range(24))
def test_the_cost_is_that_of_the_placed_graph(seed: int) -> None:
    model, ends = model_for(seed)
    found = solve(model.problem)
    check(model.problem, found.values, found.cost, found.bound, found.proof)
    assert found.cost == found.bound == plan_cost(model, found.values, ends)


@pytest.mark.parametrize("seed", range(100, 109))
def test_no_change_is_cheaper(seed: int) -> None:
    assert _no_change_is_cheaper(seed)[0]


@pytest.mark.soak
@pytest.mark.parametrize("part", range(50))
def test_no_change_of_many_programs_is_cheaper(part: int) -> None:
    for seed in range(part, PROGRAMS, 50):
        _no_change_is_cheaper(seed)


def _no_change_is_cheaper(seed: int) -> tuple[int, int]:
    """Tries all single changes and all pairs of them. How many of each.

    What the changes touch is replayed; for single changes and some pairs, the plan as a whole, too.
    """
    near = Near(seed)
    assert sum(near.base.values()) == near.best.cost
    counts = [0, 0]
    dice = random.Random(seed)
    for change in changes(near.model, near.best.values, pairs=True):
        values = near.changed(change)
        if near.possible(change, values):
            more = near.dearer(change, values)
            assert more >= 0, (seed, change)
            counts[len(change) - 1] += 1
            if dice.random() * counts[-1] < WHOLE:
                assert plan_cost(near.model, values, near.ends) == near.best.cost + more
    return counts[0], counts[1]


def test_a_worse_table_would_be_noticed() -> None:
    """The test can fail: a plan of another problem costs more than the best."""
    model, ends = model_for(3)
    found = solve(model.problem)
    worst = [int(np.argmax(np.where(t < INF, t, -1))) for t in model.problem.unary]
    if cost_of(model.problem, worst) < INF:
        assert plan_cost(model, worst, ends) > found.cost
