"""Parallel loops beside the plain loop, joblib written by hand, and Numba's prange.

    python -m benchmarks.parfor [--rounds 3] [--scale 1.0] [--only pearson,grid] [--json FILE]

Each row is a program of data analysis. "plain" is the same source without @tw.parallel (NumPy, one BLAS thread), "tw"
with it; what joblib's users would write is beside it, and for bodies that are compiled, Numba's prange. Systems take
turns in one process; times are the least of all rounds, after one call of each that is not counted. Ratios above 1: tw
is faster. Results are compared with the plain loop's.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numba
import numpy as np
from joblib import Parallel, delayed

import tilewise as tw
from tilewise.parfor.blas_threads import blas_threads
from tilewise.parfor.plan.facts import cores

PROGRAMS: dict[str, Program] = {}


@dataclass(frozen=True)
class Program:
    """A loop, how joblib's users write it, and its inputs for a scale."""

    loop: Callable[..., Any]
    inputs: Callable[[float], tuple[Any, ...]]
    joblib: Callable[..., Any]
    prange: Callable[..., Any] | None = None


@dataclass
class Measured:
    """Seconds of each system, and how tw ran it."""

    seconds: dict[str, float] = field(default_factory=dict)
    right: bool = True
    how: str = ""


def jobs(work: Callable[..., Any], many: Any) -> list[Any]:
    """joblib with as many processes as there are cores."""
    found: list[Any] = Parallel(n_jobs=cores())(delayed(work)(*args) for args in many)
    return found


# -- Pearson's correlation of all pairs of columns -------------------------------------------------------------------


def columns(scale: float) -> tuple[Any, ...]:
    rows, count = round(100_000 * scale), round(200 * min(1.0, scale * 4))
    return (np.asfortranarray(np.random.default_rng(0).normal(size=(rows, count))),)


def correlation(x: Any, y: Any) -> Any:
    x, y = x - x.mean(), y - y.mean()
    return x @ y / np.sqrt((x @ x) * (y @ y))


def pearson(X: Any) -> Any:
    n = X.shape[1]
    R = np.eye(n)
    for i in tw.parfor(range(n)):
        for j in range(i + 1, n):
            R[i, j] = correlation(X[:, i], X[:, j])
    return R


def _pearson_row(X: Any, i: int) -> Any:
    return [correlation(X[:, i], X[:, j]) for j in range(i + 1, X.shape[1])]


def pearson_joblib(X: Any) -> Any:
    n = X.shape[1]
    R = np.eye(n)
    for i, row in enumerate(jobs(_pearson_row, ((X, i) for i in range(n)))):
        R[i, i + 1 :] = row
    return R


PROGRAMS["pearson"] = Program(pearson, columns, pearson_joblib)


def pearson_processes(X: Any) -> Any:
    n = X.shape[1]
    R = np.eye(n)
    for i in tw.parfor(range(n), mode="processes"):
        for j in range(i + 1, n):
            R[i, j] = correlation(X[:, i], X[:, j])
    return R


PROGRAMS["pearson, processes"] = Program(pearson_processes, columns, pearson_joblib)

# -- cross-validation ------------------------------------------------------------------------------------------------


def regression(scale: float) -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(round(120_000 * scale), 100))
    return X, X @ rng.normal(size=100) + rng.normal(size=len(X)), 10


def ridge_fold(X: Any, y: Any, folds: int, k: int, penalty: float = 1.0) -> Any:
    test = np.arange(len(X)) % folds == k
    A, b = X[~test], y[~test]
    w = np.linalg.solve(A.T @ A + penalty * np.eye(A.shape[1]), A.T @ b)
    return ((X[test] @ w - y[test]) ** 2).mean()


def ridge(X: Any, y: Any, folds: int) -> Any:
    errors = np.zeros(folds)
    for k in tw.parfor(range(folds)):
        errors[k] = ridge_fold(X, y, folds, k)
    return errors


def ridge_joblib(X: Any, y: Any, folds: int) -> Any:
    return np.array(jobs(ridge_fold, ((X, y, folds, k) for k in range(folds))))


PROGRAMS["ridge, 10 folds"] = Program(ridge, regression, ridge_joblib)


def classes(scale: float) -> tuple[Any, ...]:
    X, y, folds = regression(scale / 2)
    return X, (y > 0).astype(float), folds


def logistic_fold(X: Any, y: Any, folds: int, k: int) -> Any:
    test = np.arange(len(X)) % folds == k
    A, b = X[~test], y[~test]
    w = np.zeros(A.shape[1])
    for _ in range(6):
        p = 1 / (1 + np.exp(-(A @ w)))
        H = (A * (p * (1 - p))[:, None]).T @ A + np.eye(A.shape[1])
        w = w - np.linalg.solve(H, A.T @ (p - b) + w)
    return ((X[test] @ w > 0) == y[test]).mean()


def logistic(X: Any, y: Any, folds: int) -> Any:
    hits = np.zeros(folds)
    for k in tw.parfor(range(folds)):
        hits[k] = logistic_fold(X, y, folds, k)
    return hits


def logistic_joblib(X: Any, y: Any, folds: int) -> Any:
    return np.array(jobs(logistic_fold, ((X, y, folds, k) for k in range(folds))))


PROGRAMS["logistic, 10 folds"] = Program(logistic, classes, logistic_joblib)


def grid_inputs(scale: float) -> tuple[Any, ...]:
    X, y, _ = regression(scale / 4)
    return X, y, 10.0 ** np.arange(-4, 4), 5


def grid(X: Any, y: Any, penalties: Any, folds: int) -> Any:
    errors = np.zeros((len(penalties), folds))
    for p in tw.parfor(range(len(penalties))):
        for k in tw.parfor(range(folds)):
            errors[p, k] = ridge_fold(X, y, folds, k, penalties[p])
    return errors


def grid_joblib(X: Any, y: Any, penalties: Any, folds: int) -> Any:
    found = jobs(ridge_fold, ((X, y, folds, k, p) for p in penalties for k in range(folds)))
    return np.array(found).reshape(len(penalties), folds)


PROGRAMS["hyper-parameter grid"] = Program(grid, grid_inputs, grid_joblib)

# -- a bagged ensemble -----------------------------------------------------------------------------------------------


def bagging_inputs(scale: float) -> tuple[Any, ...]:
    X, y, _ = regression(scale / 3)
    return X, y, X[:500], 40


def bagging(X: Any, y: Any, T: Any, models: int) -> Any:
    votes = np.zeros((models, len(T)))
    rng = np.random.default_rng(7)
    for m in tw.parfor(range(models), rng=rng):
        rows = rng.integers(0, len(X), len(X))
        A, b = X[rows], y[rows]
        votes[m] = T @ np.linalg.solve(A.T @ A + np.eye(A.shape[1]), A.T @ b)
    return votes.mean(axis=0)


def _one_model(X: Any, y: Any, T: Any, seed: int) -> Any:
    rows = np.random.default_rng(seed).integers(0, len(X), len(X))
    A, b = X[rows], y[rows]
    return T @ np.linalg.solve(A.T @ A + np.eye(A.shape[1]), A.T @ b)


def bagging_joblib(X: Any, y: Any, T: Any, models: int) -> Any:
    return np.array(jobs(_one_model, ((X, y, T, m) for m in range(models)))).mean(axis=0)


PROGRAMS["bagged ensemble"] = Program(bagging, bagging_inputs, bagging_joblib)

# -- counts and statistics of columns --------------------------------------------------------------------------------


def counts_inputs(scale: float) -> tuple[Any, ...]:
    rng = np.random.default_rng(2)
    rows = round(400_000 * scale)
    return np.asfortranarray(rng.integers(0, 20, (rows, 100))), rng.integers(0, 5, rows), 20, 5


def counts(X: Any, y: Any, values: int, kinds: int) -> Any:
    table = np.zeros((X.shape[1], kinds, values))
    for j in tw.parfor(range(X.shape[1])):
        table[j] = np.bincount(y * values + X[:, j], minlength=kinds * values).reshape(kinds, values)
    return np.log((table + 1) / (table + 1).sum(axis=2, keepdims=True))


def _one_column(column: Any, y: Any, values: int, kinds: int) -> Any:
    return np.bincount(y * values + column, minlength=kinds * values).reshape(kinds, values)


def counts_joblib(X: Any, y: Any, values: int, kinds: int) -> Any:
    table = np.array(jobs(_one_column, ((X[:, j], y, values, kinds) for j in range(X.shape[1]))), float)
    return np.log((table + 1) / (table + 1).sum(axis=2, keepdims=True))


PROGRAMS["naive Bayes counts"] = Program(counts, counts_inputs, counts_joblib)


def counted_loops(X: Any, y: Any, values: int, kinds: int) -> Any:
    table = np.zeros((X.shape[1], kinds, values))
    for j in tw.parfor(range(X.shape[1])):
        for r in range(X.shape[0]):
            table[j, y[r], X[r, j]] += 1
    return table


def _counted_column(column: Any, y: Any, values: int, kinds: int) -> Any:
    table = np.zeros((kinds, values))
    for r in range(len(column)):
        table[y[r], column[r]] += 1
    return table


def counted_joblib(X: Any, y: Any, values: int, kinds: int) -> Any:
    return np.array(jobs(_counted_column, ((X[:, j], y, values, kinds) for j in range(X.shape[1]))))


@numba.njit(parallel=True)  # type: ignore[untyped-decorator,unused-ignore]
def counted_prange(X: Any, y: Any, values: int, kinds: int) -> Any:
    table = np.zeros((X.shape[1], kinds, values))
    for j in numba.prange(X.shape[1]):
        for r in range(X.shape[0]):
            table[j, y[r], X[r, j]] += 1
    return table


PROGRAMS["counts by elements"] = Program(
    counted_loops, lambda scale: counts_inputs(scale / 4), counted_joblib, counted_prange
)


def pixels_inputs(scale: float) -> tuple[Any, ...]:
    return round(800 * scale), round(900 * scale), 100


def pixels(height: int, width: int, most: int) -> Any:
    out = np.zeros((height, width), np.int64)
    for i in tw.parfor(range(height)):
        for j in range(width):
            a, b = -2 + 3 * j / width, -1.2 + 2.4 * i / height
            x = y = 0.0
            n = 0
            while n < most and x * x + y * y < 4:
                x, y = x * x - y * y + a, 2 * x * y + b
                n += 1
            out[i, j] = n
    return out


def _pixel_row(i: int, height: int, width: int, most: int) -> Any:
    row = np.zeros(width, np.int64)
    for j in range(width):
        a, b = -2 + 3 * j / width, -1.2 + 2.4 * i / height
        x = y = 0.0
        n = 0
        while n < most and x * x + y * y < 4:
            x, y = x * x - y * y + a, 2 * x * y + b
            n += 1
        row[j] = n
    return row


def pixels_joblib(height: int, width: int, most: int) -> Any:
    return np.array(jobs(_pixel_row, ((i, height, width, most) for i in range(height))))


@numba.njit(parallel=True)  # type: ignore[untyped-decorator,unused-ignore]
def pixels_prange(height: int, width: int, most: int) -> Any:
    out = np.zeros((height, width), np.int64)
    for i in numba.prange(height):
        for j in range(width):
            a, b = -2 + 3 * j / width, -1.2 + 2.4 * i / height
            x = y = 0.0
            n = 0
            while n < most and x * x + y * y < 4:
                x, y = x * x - y * y + a, 2 * x * y + b
                n += 1
            out[i, j] = n
    return out


PROGRAMS["escape times"] = Program(pixels, pixels_inputs, pixels_joblib, pixels_prange)


def mixed_inputs(scale: float) -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    rows = round(300_000 * scale)
    X = np.asfortranarray(rng.normal(size=(rows, 30)))
    kinds = np.arange(30) % 3 == 0
    X[:, kinds] = rng.integers(0, 6, (rows, int(kinds.sum())))
    return X, kinds, 6


def pair_statistic(x: Any, y: Any, x_class: bool, y_class: bool, values: int) -> float:
    """Pearson's r of numbers, F of numbers by class, chi squared of two classes."""
    if not x_class and not y_class:
        return float(correlation(x, y))
    if x_class and y_class:
        seen = np.bincount(x.astype(int) * values + y.astype(int), minlength=values * values).reshape(values, values)
        expected = np.outer(seen.sum(axis=1), seen.sum(axis=0)) / len(x)
        return float(((seen - expected) ** 2 / expected).sum())
    groups, numbers = (x, y) if x_class else (y, x)
    keys = groups.astype(int)
    n, total = np.bincount(keys, minlength=values), np.bincount(keys, numbers, minlength=values)
    between = (total**2 / n).sum() - numbers.sum() ** 2 / len(x)
    within = (numbers**2).sum() - (total**2 / n).sum()
    return float(between / (values - 1) / (within / (len(x) - values)))


def bivariate(X: Any, kinds: Any, values: int) -> Any:
    n = X.shape[1]
    S = np.zeros((n, n))
    for i in tw.parfor(range(n)):
        for j in range(i + 1, n):
            S[i, j] = pair_statistic(X[:, i], X[:, j], kinds[i], kinds[j], values)
    return S


def _bivariate_row(X: Any, kinds: Any, values: int, i: int) -> Any:
    return [pair_statistic(X[:, i], X[:, j], kinds[i], kinds[j], values) for j in range(i + 1, X.shape[1])]


def bivariate_joblib(X: Any, kinds: Any, values: int) -> Any:
    S = np.zeros((X.shape[1], X.shape[1]))
    for i, row in enumerate(jobs(_bivariate_row, ((X, kinds, values, i) for i in range(X.shape[1])))):
        S[i, i + 1 :] = row
    return S


PROGRAMS["bivariate, mixed"] = Program(bivariate, mixed_inputs, bivariate_joblib)

# -- measuring -------------------------------------------------------------------------------------------------------


def measured(program: Program, scale: float, rounds: int) -> Measured:
    """Seconds of all systems, which take turns."""
    inputs, parallel, out = program.inputs(scale), tw.parallel(program.loop), Measured()

    def plain(*args: Any) -> Any:
        with blas_threads(1):
            return program.loop(*args)

    systems: dict[str, Callable[..., Any]] = {"plain": plain, "tw": parallel, "joblib": program.joblib}
    if program.prange is not None:
        systems["prange"] = program.prange
    expected = None
    for turn in range(rounds + 1):
        for name, run in systems.items():
            if name == "plain" and not turn:
                continue
            begin = time.perf_counter()
            found = run(*inputs)
            seconds = time.perf_counter() - begin
            if turn:
                out.seconds[name] = min(seconds, out.seconds.get(name, np.inf))
            if name == "plain":
                expected = found
            elif expected is not None and (name != "joblib" or program.loop is not bagging):  # other random numbers
                out.right = out.right and np.allclose(found, expected, rtol=1e-9, atol=1e-9)
    report = parallel.report[0]
    out.how = f"{report.body}, {report.mode}"
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    wanted = [n for n in PROGRAMS if any(part in n for part in options.only.split(","))]
    found = {}
    heads = ("tw s", "plain/tw", "joblib/tw", "prange/tw", "right")
    print(f"{'':24}{heads[0]:>8}{heads[1]:>10}{heads[2]:>11}{heads[3]:>11}  {heads[4]:6} body", flush=True)
    for name in wanted:
        m = measured(PROGRAMS[name], options.scale, options.rounds)
        own = m.seconds["tw"]
        ratios = [f"{m.seconds[s] / own:.2f}" if s in m.seconds else "" for s in ("plain", "joblib", "prange")]
        right = "yes" if m.right else "NO"
        print(f"{name:24}{own:8.3f}{ratios[0]:>10}{ratios[1]:>11}{ratios[2]:>11}  {right:6} {m.how}", flush=True)
        found[name] = {"seconds": m.seconds, "right": m.right, "how": m.how}
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
