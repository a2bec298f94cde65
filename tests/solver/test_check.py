"""The checker accepts what is true and shown, and nothing else."""

from __future__ import annotations

import ast
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise.solver.proof.check as checker
from tests.solver.problems import random_problem
from tests.solver.test_search import WAYS
from tilewise.solver.problem import INF, Infeasible, Limit, Problem, cost_of, fits
from tilewise.solver.proof.certificate import (
    Branch,
    Certificate,
    Dominated,
    Eliminate,
    Frontier,
    Move,
    Order,
    Over,
    Split,
)
from tilewise.solver.proof.check import CertificateError, check
from tilewise.solver.search import branch
from tilewise.solver.search import solve as driver
from tilewise.solver.search.baselines import brute_force
from tilewise.solver.search.solve import Solution, solve


def test_it_imports_nothing_of_the_solver() -> None:
    tree = ast.parse(Path(checker.__file__).read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert modules <= {"__future__", "collections.abc", "copy", "typing", "numpy"}


# Two variables that want to differ, and a third beside them. Least cost 3: (0, 1, 0).
A, B, C = np.array([0, 2]), np.array([0, 1]), np.array([2, 9])
PAIR = np.array([[5, 0], [0, 5]])
LIMITS = [Limit(4, {0: np.array([1, 0])}), Limit(9, {2: np.array([3, 0])})]
SMALL = Problem([A, B, C], {(0, 1): PAIR, (1, 2): np.array([[0, 1], [0, 1]])}, LIMITS)
BEST = (0, 1, 0)


def claim(*steps: Any, bound: int = 3, **options: Any) -> None:
    check(SMALL, BEST, 3, bound, Certificate(steps, **options))


def test_true_claims() -> None:
    claim(Order((0, 1, 2)))
    claim(Order((2, 0, 1)), scale=8, multipliers=(0, 0))
    claim(Frontier((1, 2, 0)), hard=True)
    claim(Eliminate(2), Eliminate(0), Eliminate(1))
    claim(Eliminate(2), Eliminate(0), Eliminate(1), Frontier(()))
    claim(Split(2, 1), Dominated(2, 1, 0), Order((0, 1, 2)))
    claim(Branch(1, (((0,), (Order((0, 1, 2)),)), ((1,), ()))))
    claim(Over(((2, 1),)), Order((0, 1, 2)))
    claim(Move(0, 1, np.array([0, -1]), np.array([1, 0])))
    claim(bound=2)
    claim(Order((0, 1, 2)), bound=2, shift=1)


FALSE = [
    ("the bound is above the least cost", [Order((0, 1, 2))], {"bound": 4}),
    ("nothing is shown", [], {}),
    ("nothing is left, and too little", [Eliminate(2), Eliminate(0), Eliminate(1), Frontier(())], {"bound": 4}),
    ("a variable is missing", [Order((0, 1))], {}),
    ("a variable comes twice", [Order((0, 1, 1))], {}),
    ("a variable is missing from the frontier", [Frontier((0, 1))], {}),
    ("a variable does not exist", [Order((0, 1, 7))], {}),
    ("steps after the last", [Order((0, 1, 2)), Eliminate(0)], {}),
    ("no such step", [(0, 1, 2)], {}),
    ("not dominated", [Dominated(0, 0, 1), Order((0, 1, 2))], {}),
    ("dominated by itself", [Dominated(0, 0, 0), Order((0, 1, 2))], {}),
    ("dominated by what is not a value", [Dominated(0, 0, 2), Order((0, 1, 2))], {}),
    ("dominated twice", [Dominated(2, 1, 0), Dominated(2, 1, 0), Order((0, 1, 2))], {}),
    ("not a sum", [Split(0, 1)], {}),
    ("no such table", [Split(0, 2)], {}),
    ("eliminated twice", [Eliminate(2), Eliminate(2), Order((0, 1))], {}),
    ("a limited variable is eliminated", [Eliminate(0), Order((1, 2))], {"hard": True}),
    ("a heavier value dominates", [Dominated(2, 1, 0), Order((0, 1, 2))], {"hard": True}),
    ("moves that lower the bound", [Move(0, 1, np.array([3, 0]), np.array([0, 0]))], {}),
    ("moves of another shape", [Move(0, 1, np.array([0, 0, 0]), np.array([0, 0]))], {}),
    ("moves that are not whole", [Move(0, 1, np.array([0.5, 0]), np.array([0, 0]))], {}),
    ("moves that overflow", [Move(0, 1, np.array([1 << 61, 0]), np.array([0, 0]))], {}),
    ("values over that are not", [Over(((0, 0),)), Order((0, 1, 2))], {}),
    ("all values over that are not", [Over(((0, 0), (0, 1)))], {}),
    ("a part is missing", [Branch(1, (((1,), ()),))], {}),
    ("a part shows too little", [Branch(0, (((0,), (Move(0, 1, np.array([9]), np.array([0, 0])),)), ((1,), ())))], {}),
    ("scale zero", [Order((0, 1, 2))], {"scale": 0}),
    ("last bits that were needed", [Order((0, 1, 2))], {"shift": 1}),
    ("a negative shift", [Order((0, 1, 2))], {"shift": -1}),
    ("a scale that overflows", [Order((0, 1, 2))], {"scale": 1 << 60}),
    ("a ceiling below the costs", [Order((0, 1, 2))], {"ceiling": 0}),
    ("a multiplier too many", [Order((0, 1, 2))], {"multipliers": (0, 0, 0)}),
    ("a negative multiplier", [Order((0, 1, 2))], {"multipliers": (-1, 0)}),
    ("a multiplier that costs too much", [Order((0, 1, 2))], {"multipliers": (1, 0)}),
]


@pytest.mark.parametrize(("steps", "options"), [row[1:] for row in FALSE], ids=[row[0] for row in FALSE])
def test_false_claims(steps: list[Any], options: dict[str, Any]) -> None:
    with pytest.raises(CertificateError):
        claim(*steps, **options)


def test_wrong_plans() -> None:
    proof = Certificate((Order((0, 1, 2)),))
    for values, cost in [((0, 0, 0), 3), (BEST, 2), (BEST, 4), ((0, 1), 3), ((0, 1, 5), 3), ((0, -1, 0), 3)]:
        with pytest.raises(CertificateError):
            check(SMALL, values, cost, min(cost, 3), proof)
    tight = Problem(SMALL.unary, SMALL.pairs, [Limit(0, {0: np.array([1, 0])})])
    with pytest.raises(CertificateError, match="limit 0 allows 0, the values use 1"):
        check(tight, BEST, 3, 3, proof)


def solutions(monkeypatch: pytest.MonkeyPatch, limits: int) -> list[tuple[Problem, Solution]]:
    found = []
    for way in WAYS.values():
        with monkeypatch.context() as patch:
            for name, value in way.items():
                patch.setattr(driver if name.startswith("DIRECT") else branch, name, value)
            for seed in range(6):
                problem = random_problem(seed, density=0.8, limits=limits)
                with suppress(Infeasible):
                    found.append((problem, solve(problem)))
    return found


def altered(steps: tuple[Any, ...], rng: random.Random) -> tuple[Any, ...]:
    """The steps with one thing changed: one left out, doubled, exchanged, or a field of one altered."""
    if not steps:
        return steps
    at = rng.randrange(len(steps))
    step = steps[at]
    draw = rng.random()
    if draw < 0.15:
        return steps[:at] + steps[at + 1 :]
    if draw < 0.25:
        return (*steps[: at + 1], *steps[at:])
    if draw < 0.35:
        other = rng.randrange(len(steps))
        return tuple(steps[{at: other, other: at}.get(k, k)] for k in range(len(steps)))
    field = rng.randrange(len(step))
    value = step[field]
    if isinstance(step, Branch) and field == 1:
        part = rng.randrange(len(value))
        values, inner = value[part]
        value = (*value[:part], (values, altered(inner, rng)), *value[part + 1 :])
    elif isinstance(value, np.ndarray):
        value = value + rng.choice((-(1 << 20), -1, 1, 1 << 20)) * (np.arange(len(value)) == rng.randrange(len(value)))
    elif isinstance(value, tuple | list):
        value = tuple(value[:-1]) if rng.random() < 0.5 else tuple(value) + tuple(value[:1])
    else:
        value = value + rng.choice((-1, 1))
    return (*steps[:at], type(step)(*step[:field], value, *step[field + 1 :]), *steps[at + 1 :])


@pytest.mark.parametrize("limits", [0, 3])
def test_no_altered_certificate_shows_what_is_false(monkeypatch: pytest.MonkeyPatch, limits: int) -> None:
    """Whatever is done to a certificate, it does not prove more than the least cost."""
    rng = random.Random(limits)
    tried = 0
    for problem, found in solutions(monkeypatch, limits):
        check(problem, found.values, found.cost, found.bound, found.proof)
        worse = [tuple(rng.randrange(len(table)) for table in problem.unary) for _ in range(50)]
        worse = [values for values in worse if fits(problem, values) and cost_of(problem, values) > found.cost]
        if not worse:
            continue
        assert cost_of(problem, brute_force(problem)) == found.cost
        for _ in range(30):
            proof = replace(found.proof, steps=altered(found.proof.steps, rng))
            if rng.random() < 0.3:
                changes = {"scale": 1, "ceiling": found.proof.ceiling + 1, "hard": not found.proof.hard}
                proof = replace(proof, **dict([rng.choice(list(changes.items()))]))
            with pytest.raises(CertificateError):
                check(problem, worse[0], cost_of(problem, worse[0]), found.cost + 1, proof)
            tried += 1
    assert tried > 200


def test_altered_tables_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate of one problem does not serve another with a cheaper plan."""
    for way in WAYS.values():
        with monkeypatch.context() as patch:
            for name, value in way.items():
                patch.setattr(driver if name.startswith("DIRECT") else branch, name, value)
            problem = random_problem(5, density=0.8)
            found = solve(problem)
        for v, table in enumerate(problem.unary):
            for value in set(range(len(table))) - {found.values[v]}:
                lower = table - 100 * (np.arange(len(table)) == value)
                other = replace(problem, unary=[lower if w == v else u for w, u in enumerate(problem.unary)])
                with pytest.raises(CertificateError):
                    check(other, found.values, found.cost, found.bound, found.proof)


def test_forbidden_costs_do_not_overflow() -> None:
    problem = Problem([np.array([INF, 1])] * 30, {(i, i + 1): np.array([[INF, INF], [INF, 2]]) for i in range(29)})
    found = solve(problem)
    check(problem, found.values, found.cost, found.bound, found.proof)
    assert found.cost == 30 + 2 * 29
