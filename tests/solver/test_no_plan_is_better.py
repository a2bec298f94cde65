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
from tests.solver.replay import plan_cost
from tilewise.cost.model import FIXED, Machine
from tilewise.layout import Mesh, OnDriver
from tilewise.solver.check import check
from tilewise.solver.graph import Use, graph_of
from tilewise.solver.model import Model, model_of
from tilewise.solver.problem import INF, cost_of
from tilewise.solver.search import solve

MESHES = (Mesh(2), Mesh(4), Mesh(7), Mesh(3, 3), Mesh(4, 1, 2), Mesh(8, 1, 4))
MACHINES = (FIXED, replace(FIXED, objective="bytes"), replace(FIXED, latency=0.0))
PROGRAMS = 1000


def small(program: Program) -> Program:
    """The same program on arrays whose pieces can be listed."""
    sides = {64: 6, 1_000: 30, 20_000: 60}
    ops = (replace(op, shape=tuple(sides.get(n, n) for n in op.shape)) for op in program.ops)
    return Program(program.name, tuple(Op(op.kind, op.inputs, op.shape, op.axis) for op in ops))


def model_for(seed: int) -> tuple[Model, list[Use]]:
    mesh, machine = MESHES[seed % len(MESHES)], MACHINES[seed % len(MACHINES)]
    return build(small(random_program(seed, 4 + seed % 9)), mesh, machine)


def build(program: Program, mesh: Mesh, machine: Machine) -> tuple[Model, list[Use]]:
    nodes, wanted = recorded(program)
    graph = graph_of(nodes, {n for n in nodes if n.value is not None})
    ends = [graph.at[w] for w in wanted]
    sources = [(OnDriver(),) for n in nodes if n.value is not None]
    return model_of(graph, ends, sources, mesh, machine), ends


def changes(model: Model, values: tuple[int, ...], pairs: bool) -> Iterator[tuple[int, ...]]:
    """All assignments that differ in one variable, or in two."""
    others = [[(v, x) for x in range(len(table)) if x != values[v]] for v, table in enumerate(model.problem.unary)]
    single = [[change] for row in others for change in row]
    double = [[a, b] for i, j in itertools.combinations(range(len(others)), 2) for a in others[i] for b in others[j]]
    for some in (*single, *(double if pairs else ())):
        changed = list(values)
        for v, x in some:
            changed[v] = x
        yield tuple(changed)


@pytest.mark.parametrize("seed", range(24))
def test_the_cost_is_that_of_the_placed_graph(seed: int) -> None:
    model, ends = model_for(seed)
    found = solve(model.problem)
    check(model.problem, found.values, found.cost, found.bound, found.proof)
    assert found.cost == found.bound == plan_cost(model, found.values, ends)


@pytest.mark.parametrize("seed", range(100, 118))
def test_no_single_change_is_cheaper(seed: int) -> None:
    _no_change_is_cheaper(seed, pairs=False, most=150)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(50))
def test_no_single_or_pair_change_is_cheaper(part: int) -> None:
    for seed in range(part, PROGRAMS, 50):
        _no_change_is_cheaper(seed, pairs=True, most=2000)


def _no_change_is_cheaper(seed: int, pairs: bool, most: int) -> None:
    model, ends = model_for(seed)
    found = solve(model.problem)
    best = plan_cost(model, found.values, ends)
    near = [c for c in changes(model, found.values, pairs) if cost_of(model.problem, c) < INF]
    for values in random.Random(seed).sample(near, min(most, len(near))):
        assert plan_cost(model, values, ends) >= best


def test_a_worse_table_would_be_noticed() -> None:
    """The test can fail: a plan of another problem costs more than the best."""
    model, ends = model_for(3)
    found = solve(model.problem)
    worst = [int(np.argmax(np.where(t < INF, t, -1))) for t in model.problem.unary]
    if cost_of(model.problem, worst) < INF:
        assert plan_cost(model, worst, ends) > found.cost
