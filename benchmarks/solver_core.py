"""How far the exact search gets, on abstract programs with published seeds. In: options. Out: a table and JSON.

    python -m benchmarks.solver_core [--part 1.0] [--first 0] [--rows small,apps] [--output results.json]

Times are build + solve on one core, in milliseconds: of the wall, and of this process alone (on a shared machine the
first may be a multiple of the second). Every certificate is checked, outside of the times. `--part 0.01` runs a
hundredth of the random programs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.tilings.apps import APPLICATIONS, lbfgs
from benchmarks.tilings.costs import Mesh, build
from benchmarks.tilings.programs import Program, random_loop, random_program
from tilewise.solver.baselines import MOST, brute_force, greedy
from tilewise.solver.check import check
from tilewise.solver.problem import Problem, cost_of
from tilewise.solver.search import Solution, solve

RESULTS = Path(__file__).resolve().parent / "results" / "solver_core.json"
VOLUME, WORK, GRID = Mesh((8,)), Mesh((8,), work=True), Mesh((2, 4))


@dataclass(frozen=True)
class Case:
    program: Program
    mesh: Mesh
    budget: float | None = None


Cases = Callable[[float, int], Iterator[Case]]  # of a part of the programs, and the first seed


@dataclass(frozen=True)
class Row:
    """Cases, and the goal: a time that so many per cent of them keep, and the largest gap."""

    name: str
    cases: Cases
    goal_ms: float
    percentile: float = 100.0
    proved: float = 1.0  # of all cases, at least
    gap: float = 0.0  # of the others, at most
    seconds: float | None = None
    binding: bool = False  # Only cases whose limits bind are counted.


@dataclass
class Outcome:
    """What a row reached."""

    name: str
    wall: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    methods: dict[str, int] = field(default_factory=dict)
    brute: int = 0  # cases where brute force was possible, and agreed
    greedy: list[float] = field(default_factory=list)  # its cost, as a multiple of the least


def _small(mesh: Mesh, count: int, budgets: tuple[float | None, ...] = (None,)) -> Cases:
    def cases(part: float, first: int) -> Iterator[Case]:
        for seed in range(first, first + math.ceil(count * part)):
            yield Case(random_program(seed, 5 + seed % 11), mesh, budgets[seed % len(budgets)])

    return cases


def _random(sizes: tuple[int, ...], count: int, window: int | None = None) -> Cases:
    def cases(part: float, first: int) -> Iterator[Case]:
        for seed in range(first, first + math.ceil(count * part)):
            for size in sizes:
                yield Case(random_program(seed, size, window=window), (VOLUME, WORK)[seed % 2])

    return cases


def _loops(size: int, count: int) -> Cases:
    def cases(part: float, first: int) -> Iterator[Case]:
        for seed in range(first, first + math.ceil(count * part)):
            yield Case(random_loop(seed, size), (VOLUME, WORK)[seed % 2])

    return cases


def _programs(*programs: Callable[[int], Program]) -> Cases:
    def cases(part: float, first: int) -> Iterator[Case]:
        for program in programs:
            for mesh in (VOLUME, WORK):
                yield Case(program(100), mesh)

    return cases


ROWS = {
    "small": Row("at most 15 operators, volume", _small(VOLUME, 5_000), 3, 99),
    "small-work": Row("at most 15 operators, volume and work", _small(WORK, 5_000), 3, 99),
    "small-grid": Row("at most 15 operators, mesh of 2 x 4", _small(GRID, 500), 15, 99, gap=0.01),
    "small-limits": Row(
        "at most 15 operators, limits that bind", _small(VOLUME, 1_500, (0.0, 0.1, 0.3)), 15, 99, gap=0.01, binding=True
    ),
    "200": Row("200 operators", _random((200,), 80), 250),
    "apps": Row("eight applications, 100 iterations", _programs(*APPLICATIONS[:-1]), 200),
    "mlp": Row("training of an MLP, 100 iterations", _programs(APPLICATIONS[-1]), 800),
    "loops": Row("loops, 5,000 operators", _loops(5_000, 20), 1_500),
    "local": Row("1,000 operators, operands among the last 60", _random((1_000,), 20, 60), 1_500),
    "uniform": Row("1,000 operators, operands anywhere", _random((1_000,), 20), 30_000, 100, 0.8, 0.05, 30.0),
    "lbfgs": Row("L-BFGS, history 10, 100 iterations", _programs(lbfgs), 10_000),
}


def run(row: Row, part: float, first: int) -> Outcome:
    """Solve a row's cases one after another."""
    outcome = Outcome(row.name)
    for case in row.cases(part, first):
        wall, own = time.perf_counter(), time.process_time()
        problem = build(case.program, case.mesh, case.budget)
        found = solve(problem, row.seconds)
        own, wall = time.process_time() - own, time.perf_counter() - wall
        if row.binding and found.method != "limits":
            continue
        outcome.wall.append(wall * 1e3)
        outcome.own.append(own * 1e3)
        outcome.gaps.append(found.gap)
        outcome.methods[found.method] = outcome.methods.get(found.method, 0) + 1
        begin = time.perf_counter()
        check(problem, found.values, found.cost, found.bound, found.proof)
        outcome.checks.append((time.perf_counter() - begin) * 1e3)
        _compare(outcome, problem, found)
    return outcome


def _compare(outcome: Outcome, problem: Problem, found: Solution) -> None:
    if problem.limits:
        return
    if math.prod(len(table) for table in problem.unary) <= MOST >> 6:
        assert cost_of(problem, brute_force(problem)) == found.cost
        outcome.brute += 1
    outcome.greedy.append(cost_of(problem, greedy(problem, range(len(problem.unary)))) / max(found.cost, 1))


def report(row: Row, outcome: Outcome) -> tuple[str, bool]:
    """A line of the table, and whether the goal is reached (by the time of this process)."""
    wall, own = (float(np.percentile(times, row.percentile)) for times in (outcome.wall, outcome.own))
    proved = sum(gap == 0 for gap in outcome.gaps)
    reached = own <= row.goal_ms and proved >= row.proved * len(outcome.gaps) and max(outcome.gaps) <= row.gap
    worse = [ratio for ratio in outcome.greedy if ratio > 1]
    greedy_text = f"{len(worse) / len(outcome.greedy):4.0%}" if outcome.greedy else "   -"
    times = f"p50 {np.median(outcome.own):7.1f}  p{row.percentile:<3.0f} {own:8.1f} (wall {wall:8.1f})"
    counts = f"{proved:5} of {len(outcome.gaps):5}  {max(outcome.gaps):6.2%}"
    checks = f"check {np.percentile(outcome.checks, row.percentile):7.1f}"
    goal = f"goal {row.goal_ms:7.0f}  {'yes' if reached else 'NO':3}"
    line = f"{outcome.name:46} {counts}  {times}  {goal}  {checks}  greedy worse {greedy_text}"
    return line, reached


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=float, default=1.0, help="of the random programs")
    parser.add_argument("--first", type=int, default=0, help="seed; the search was tuned on the seeds from 0 on")
    parser.add_argument("--rows", default=",".join(ROWS), help="which, by name")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    for mesh, budget in ((GRID, None), (GRID, 0.1), (VOLUME, 0.1)):  # Native code is compiled once per process.
        solve(build(random_program(1, 15), mesh, budget))
    outcomes, missed = [], 0
    for name in options.rows.split(","):
        outcome = run(ROWS[name], options.part, options.first)
        line, reached = report(ROWS[name], outcome)
        print(line, flush=True)
        missed += not reached
        outcomes.append(outcome)
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "machine": platform.platform()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"machine": machine, "rows": [asdict(o) for o in outcomes]}) + "\n")
    print(f"written: {options.output}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
