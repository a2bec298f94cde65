"""The search finds the least cost, proves it, and says so honestly when it cannot."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

from benchmarks.tilings.apps import APPLICATIONS
from benchmarks.tilings.programs import random_program
from tests.solver.problems import problem_of, random_problem
from tilewise.cost.model import FIXED, Rates
from tilewise.layout import Mesh
from tilewise.solver.problem import INF, Infeasible, Limit, Problem, cost_of, fits
from tilewise.solver.proof.certificate import Branch, Frontier, Order
from tilewise.solver.proof.check import check
from tilewise.solver.search import branch
from tilewise.solver.search import solve as driver
from tilewise.solver.search.baselines import brute_force, greedy
from tilewise.solver.search.eliminate import Elimination
from tilewise.solver.search.solve import Solution, solve

BYTES = replace(FIXED, objective="bytes")


def verified(problem: Problem, seconds: float | None = None) -> Solution:
    found = solve(problem, seconds)
    check(problem, found.values, found.cost, found.bound, found.proof)
    return found


# How far each way of solving may go: with all of them allowed, small problems never leave the first.
WAYS = {
    "elimination": {},
    "kernel": {"DIRECT": -1.0, "DIRECT_IN_ALL": -1.0, "ENTRIES": 1},
    "bounds": {"DIRECT": -1.0, "DIRECT_IN_ALL": -1.0, "NARROW": -1.0, "IN_ALL": -1.0},
    "frontier": {"DIRECT": -1.0, "DIRECT_IN_ALL": -1.0, "NARROW": -1.0, "IN_ALL": -1.0, "ENTRIES": 1},
    "branch": {"DIRECT": -1.0, "DIRECT_IN_ALL": -1.0, "NARROW": -1.0, "IN_ALL": -1.0, "WIDE": -1.0, "FEW": -1},
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in WAYS[request.param].items():
        monkeypatch.setattr(driver if name.startswith("DIRECT") else branch, name, value)
    return request.param


@pytest.mark.parametrize("limits", [0, 3])
@pytest.mark.parametrize("forbidden", [0.0, 0.15])
def test_equals_brute_force(way: str, limits: int, forbidden: float) -> None:
    for seed in range(25):
        problem = random_problem(seed, density=0.7, limits=limits, forbidden=forbidden, lowest=-5 if seed % 2 else 0)
        try:
            best = cost_of(problem, brute_force(problem))
        except Infeasible:
            with pytest.raises(Infeasible):
                solve(problem)
            continue
        found = verified(problem)
        assert (found.cost, found.bound) == (best, best)


def test_the_ways_are_taken(way: str) -> None:
    def kinds(steps: tuple[object, ...]) -> set[type]:
        inner = [part for step in steps if isinstance(step, Branch) for _, part in step.parts]
        return {type(step) for step in steps}.union(*map(kinds, inner))

    met = set()
    for seed in range(20):
        met |= kinds(solve(random_problem(seed, density=0.9)).proof.steps)
    assert {"elimination": Order, "kernel": Order, "bounds": Frontier, "frontier": Frontier, "branch": Branch}[
        way
    ] in met


@pytest.mark.parametrize("mesh", [Mesh(8), Mesh(8, 1, 4)], ids=str)
@pytest.mark.parametrize("machine", [FIXED, BYTES], ids=["time", "bytes"])
def test_programs(mesh: Mesh, machine: Rates) -> None:
    for seed in range(12):
        problem = problem_of(random_program(seed, 15), mesh, machine)
        found = verified(problem)
        assert found.proved
        assert found.cost <= cost_of(problem, greedy(problem))


def test_programs_under_a_budget() -> None:
    bound = 0
    for seed in range(15):
        for budget in (0.2, 0.9):
            problem = problem_of(random_program(seed, 15), budget=budget)
            with suppress(Infeasible):
                found = verified(problem)
                assert found.proved and fits(problem, found.values)
                bound += found.method == "limits"
    assert bound > 5  # The limits mattered.


def test_large_programs_are_proved() -> None:
    assert verified(problem_of(random_program(1, 200))).proved
    assert verified(problem_of(random_program(3, 1_000))).proved


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda f: f.__name__)
def test_applications_are_proved(application) -> None:
    assert verified(problem_of(application(10))).proved


def test_equal_steps_are_done_once() -> None:
    """A long chain of equal tables needs no more of them than a short one."""
    made = []
    for length in (200, 2_000):
        unary, table = np.array([3, 1, 2]), np.array([[0, 4, 9], [2, 0, 3], [7, 5, 0]])
        chain = Elimination([unary] * length, {(i, i + 1): table for i in range(length - 1)}, range(length))
        assert chain.bound == length
        made.append(len(chain._done))
    assert made[0] == made[1] < 10


def test_the_gap_is_honest_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WAYS["branch"].items():
        monkeypatch.setattr(driver if name.startswith("DIRECT") else branch, name, value)
    for name in ("AT_ROOT", "WITHIN"):
        monkeypatch.setattr(branch, name, branch.Pace(1, 1.0))
    open_gaps = 0
    for seed in range(10):
        problem = random_problem(seed, variables=9, values=4, density=0.9)
        found = verified(problem, seconds=0.0)
        assert found.bound <= cost_of(problem, brute_force(problem)) <= found.cost
        open_gaps += not found.proved
    assert open_gaps  # Some were really cut short.


def test_what_is_too_deep_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WAYS["branch"].items():
        monkeypatch.setattr(driver if name.startswith("DIRECT") else branch, name, value)
    monkeypatch.setattr(branch, "DEEPEST", 0)
    left = 0
    for seed in range(10):
        problem = random_problem(seed, variables=9, values=4, density=0.9)
        found = verified(problem)
        assert found.bound <= cost_of(problem, brute_force(problem)) <= found.cost
        left += not found.proved
    assert left


def test_time_is_kept() -> None:
    problem = problem_of(random_program(2, 200), budget=0.9)
    solve(problem, seconds=0.1)  # compiles
    begin = perf_counter()
    found = verified(problem, seconds=0.5)
    assert perf_counter() - begin < 10  # A busy machine; unlimited, it takes minutes.
    assert fits(problem, found.values)
    assert found.bound <= found.cost


def test_a_start_is_used() -> None:
    problem = random_problem(3, variables=9, density=0.9)
    best = brute_force(problem)
    assert solve(problem, start=lambda: best).cost == cost_of(problem, best)


def test_equal_problems_have_equal_solutions() -> None:
    for seed in range(5):
        first, second = (solve(problem_of(random_program(seed, 30), budget=0.9)) for _ in range(2))
        assert (first.values, first.cost, first.bound, first.method) == (
            second.values,
            second.cost,
            second.bound,
            second.method,
        )


def test_ties_go_to_the_lowest_value() -> None:
    flat = Problem([np.zeros(3, np.int64)] * 4, {(i, j): np.zeros((3, 3), np.int64) for i in range(3) for j in (3,)})
    assert solve(flat).values == (0, 0, 0, 0)


def test_a_problem_without_variables() -> None:
    found = verified(Problem([], {}))
    assert (found.values, found.cost) == ((), 0)


def test_too_tight_a_limit_is_named() -> None:
    use = {0: np.array([3, 5]), 1: np.array([4, 9])}
    problem = Problem([np.array([1, 0])] * 2, {}, [Limit(100, use), Limit(6, use)])
    with pytest.raises(Infeasible, match="limit 1 allows 6, and its variables use at least 7"):
        solve(problem)


def test_limits_of_nothing() -> None:
    program = problem_of(random_program(2, 30), budget=0.9)
    assert solve(program).method == "limits"
    same = Problem(program.unary, program.pairs, [*program.limits, Limit(0, {})])
    assert verified(same).cost == verified(program).cost
    with pytest.raises(Infeasible, match="allows -1"):
        solve(Problem(program.unary, program.pairs, [*program.limits, Limit(-1, {})]))


def test_a_variable_without_values() -> None:
    with pytest.raises(Infeasible, match="Variable 1 has no values"):
        solve(Problem([np.array([1]), np.zeros(0, np.int64)], {}))


def test_everything_forbidden() -> None:
    with pytest.raises(Infeasible, match="forbidden"):
        solve(Problem([np.array([INF, INF])], {}))


def test_large_costs_are_added_without_their_last_bits() -> None:
    problem = Problem([np.array([(1 << 54) + 1, (1 << 54) + 9])] * 40, {})
    found = verified(problem)
    assert found.values == (0,) * 40
    assert not found.proved and found.gap < 1e-12
    allowed = Problem([*problem.unary, np.array([INF, 7])], {(0, 40): np.array([[0, INF], [0, 0]])})
    assert verified(allowed).values == (1, *(0,) * 39, 1)


def test_a_start_saves_the_last_bits() -> None:
    """Entries above the cost of a known assignment do not matter, however large."""
    problem = Problem([np.array([1 << 54, 3])] * 40, {})
    assert verified(problem).proof.shift > 0
    found = solve(problem, start=lambda: [1] * 40)
    check(problem, found.values, found.cost, found.bound, found.proof)
    assert found.proved and found.proof.ceiling == 121 and not found.proof.shift


def test_costs_that_would_overflow_are_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        solve(Problem([np.array([1 << 58, 0])] * 9, {}))


def test_plans_that_elimination_finds_do_not_load_llvm() -> None:
    program = """
import sys, tilewise as tw
with tw.config(eager_bytes=0, flush=False):
    a = tw.ones((1000, 1000))
    assert tw.explain(a @ a + a.T, workers=4).optimal
sys.exit("llvmlite.binding" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
