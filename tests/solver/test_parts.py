"""The parts of the search, each against its plain meaning."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.tilings.programs import random_loop, random_program
from tests.conftest import Retune
from tests.solver.problems import problem_of, random_problem
from tilewise.cost.model import FIXED
from tilewise.layout import Mesh
from tilewise.solver.gc_off import gc_off
from tilewise.solver.model import holding
from tilewise.solver.model import model as tiling
from tilewise.solver.problem import Infeasible, Problem, cost_of, fits
from tilewise.solver.search import depth_first
from tilewise.solver.search.baselines import brute_force, greedy
from tilewise.solver.search.dual import Dual
from tilewise.solver.search.eliminate import Elimination
from tilewise.solver.search.frontier import Frontier
from tilewise.solver.search.lagrange import price
from tilewise.solver.search.native import Native
from tilewise.solver.search.order import elimination_order
from tilewise.solver.search.shrink import Kernel
from tilewise.solver.search.solve import solve
from tilewise.solver.search.tables import Tables

SEEDS = range(12)


def test_native_code_is_the_python_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Message passing, rounding and slack: the same numbers compiled and interpreted."""

    def run() -> tuple[object, ...]:
        problem = random_problem(1, variables=8, density=0.8, lowest=-5)
        dual = Dual([table * 64 for table in problem.unary], {e: t * 64 for e, t in problem.pairs.items()})
        dual.sweep(3)
        found = depth_first.search(dual, random_problem(1, variables=8, limits=2).limits, 0, 1 << 40, 64, 1 << 20)
        numbers = dual.bound(), dual.round().tolist(), np.concatenate(dual.slack()).tolist(), dual.tables.tolist()
        return *numbers, found

    compiled = run()

    def interpreted(self: Native, *arguments: object) -> int:
        return self.python(*arguments)

    monkeypatch.setattr(Native, "__call__", interpreted)
    assert run() == compiled


def test_what_native_code_cannot_be() -> None:
    def wrong(count: int) -> int:
        return abs(count)

    wrong.__annotations__ = {"count": "int", "return": "int"}
    with pytest.raises(AssertionError, match="Call is not of the narrow kind"):
        Native(wrong)(1)


@pytest.mark.parametrize("seed", SEEDS)
def test_moving_costs_changes_no_assignment(seed: int) -> None:
    problem = random_problem(seed, density=0.8, lowest=-5)
    dual = Dual(problem.unary, problem.pairs)
    before = dual.bound()
    rng = np.random.default_rng(seed)
    some = [np.array([rng.integers(len(table)) for table in problem.unary]) for _ in range(20)]
    costs = [cost_of(problem, values.tolist()) for values in some]
    dual.sweep(10)
    assert [dual.cost(values) for values in some] == costs
    best = cost_of(problem, brute_force(problem))
    assert before <= dual.bound() <= best
    excess = dual.slack()
    for values, cost in zip(some, costs, strict=True):
        assert all(dual.bound() + excess[v][value] <= cost for v, value in enumerate(values))


@pytest.mark.parametrize("seed", SEEDS)
def test_elimination(seed: int) -> None:
    problem = random_problem(seed, density=0.6, lowest=-5)
    order = elimination_order([len(table) for table in problem.unary], problem.pairs, 60.0)
    done = Elimination(problem.unary, problem.pairs, order)
    best = cost_of(problem, brute_force(problem))
    assert done.bound == best == cost_of(problem, done.values())


def test_large_sums_are_made_in_parts(retune: Retune) -> None:
    retune(solver_at_once=1, solver_sum_at_once=1, solver_intern_from=1)
    for seed in SEEDS:
        test_elimination(seed)
        test_a_kernel_keeps_the_least_cost(seed)


def test_orders_that_are_too_wide() -> None:
    edges = [(i, j) for i in range(6) for j in range(i + 1, 6)]
    assert elimination_order([4] * 6, edges, 11.9) is None
    assert sorted(elimination_order([4] * 6, edges, 12.0)) == list(range(6))
    assert sorted(elimination_order([4] * 6, edges, 0.0, 13.0)) == list(range(6))
    assert elimination_order([4] * 6, edges, 0.0, 12.0) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kernel_keeps_the_least_cost(seed: int) -> None:
    problem = random_problem(seed, variables=9, values=3, density=0.45)
    kernel = Kernel(problem.unary, problem.pairs, Tables())
    kernel.reduce()
    names, unary, pairs = kernel.flat()
    rest = Problem(unary, pairs)
    places = brute_force(rest) if names else ()
    values = kernel.extend({v: kernel.left[v][place] for v, place in zip(names, places, strict=True)})
    best = cost_of(problem, brute_force(problem))
    assert kernel.constant + cost_of(rest, places) == best
    assert cost_of(problem, [values[v] for v in range(9)]) == best


def test_kernels_of_loops_share_their_tables() -> None:
    made = []
    for size in (500, 2_000):
        problem = problem_of(random_loop(1, size))
        store = Tables()
        Kernel(problem.unary, problem.pairs, store).reduce()
        made.append(len(store._equal))
    assert made[1] < 2 * made[0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("width", [3, 10_000])
def test_frontier(seed: int, width: int) -> None:
    problem = random_problem(seed, density=0.6, limits=2)
    try:
        best = cost_of(problem, brute_force(problem))
    except Infeasible:
        best = 1 << 40
    found = Frontier(problem.unary, problem.pairs, problem.limits, 0).search(1 << 40, width)
    assert found.bound <= best
    if found.values is not None:
        assert fits(problem, found.values) and cost_of(problem, found.values) == found.cost
    if width > 3:
        assert found.bound == found.cost == best


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("most", [50, 1 << 20])
def test_dives(seed: int, most: int) -> None:
    """The best assignment, or one that fits if there is no time for more; nothing at the goal or above."""
    problem = random_problem(seed, density=0.6, limits=2, lowest=-5)
    try:
        best = cost_of(problem, brute_force(problem))
    except Infeasible:
        best = 1 << 40
    dual = Dual([table * 64 for table in problem.unary], {e: t * 64 for e, t in problem.pairs.items()})
    dual.sweep(3)
    found = depth_first.search(dual, problem.limits, 640, 1 << 40, 64, most)
    if found.values is not None:
        assert fits(problem, found.values) and cost_of(problem, found.values) * 64 + 640 == found.cost
    if found.order is not None:
        assert sorted(found.order) == list(range(len(problem.unary)))
        assert found.cost == min(best * 64 + 640, 1 << 40)
        again = depth_first.search(dual, problem.limits, 640, found.cost, 64, most)
        assert again.values is None
    assert most == 50 or found.order is not None


@pytest.mark.parametrize("seed", SEEDS)
def test_prices_give_a_bound(seed: int) -> None:
    problem = random_problem(seed, density=0.6, limits=2)
    try:
        best = cost_of(problem, brute_force(problem))
    except Infeasible:
        return
    scaled = [table * 64 for table in problem.unary], {e: t * 64 for e, t in problem.pairs.items()}
    priced = price(*scaled, problem.limits, best * 64, lambda: False)
    assert priced.bound <= best * 64
    assert min(priced.prices) >= 0
    assert priced.values is None or fits(problem, priced.values)


def test_greedy_begins_with_what_has_most_neighbours() -> None:
    """Variable 1 has two neighbours and takes what is best if these do what suits it; one of them cannot."""
    table = np.array([[0, 9], [9, 1]])
    problem = Problem([np.array([0, 0]), np.array([0, 0]), np.array([20, 0])], {(0, 1): table, (1, 2): table})
    assert greedy(problem) == (1, 1, 1)
    torn = Problem([np.array([0, 6]), np.array([3, 0]), np.array([0, 0])], {(0, 1): table, (1, 2): table})
    assert greedy(torn) == (0, 0, 0)


def test_greedy_is_no_better_than_the_best() -> None:
    worse = 0
    for seed in range(40):
        problem = random_problem(seed, density=0.7)
        cost, best = (cost_of(problem, values) for values in (greedy(problem), brute_force(problem)))
        assert cost >= best
        worse += cost > best
    assert worse


def test_pairs_of_layouts_that_are_left_out_are_needless(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all pairs weighed nothing is cheaper."""
    sizes = []
    for keep_all in (False, True):
        if keep_all:
            monkeypatch.setattr(holding, "needless", lambda *_: [])
            monkeypatch.setattr(holding, "direct", lambda _: False)
        for table in (tiling._choices, tiling._holdings, tiling._tables):
            table.clear()
        found = []
        for seed in range(20):
            for mesh in (Mesh(4), Mesh(4, 1, 2)):
                machine = (FIXED, replace(FIXED, objective="bytes"))[seed % 2]
                problem = problem_of(random_program(seed, 8 + seed % 7), mesh, machine)
                found.append((solve(problem).cost, sum(map(len, problem.unary))))
        sizes.append(found)
    assert [cost for cost, _ in sizes[0]] == [cost for cost, _ in sizes[1]]
    assert sum(size for _, size in sizes[0]) < sum(size for _, size in sizes[1])
    for table in (tiling._choices, tiling._holdings, tiling._tables):
        table.clear()


def test_planning_does_not_search_for_garbage() -> None:
    """Not within, and as before afterwards, also after an error."""
    with pytest.raises(KeyError), gc_off():
        assert not gc.isenabled()
        with gc_off():
            raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with gc_off():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_brute_force_refuses_large_problems() -> None:
    with pytest.raises(ValueError, match="Brute force"):
        brute_force(Problem([np.zeros(10, np.int64)] * 9, {}))


def test_programs_come_from_their_seeds() -> None:
    assert random_program(3, 40) == random_program(3, 40)
    assert random_program(3, 40) != random_program(4, 40)
    assert len(random_program(3, 40)) == 40
