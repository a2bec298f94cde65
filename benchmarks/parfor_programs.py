"""Programs of data analysis as parallel loops. In: a scale. Out: `PROGRAMS`: loops, the same by joblib and prange.

Loops run as `how` says; plain, they are NumPy's. What joblib's users would write is beside each, and for bodies of
elements what Numba's would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
from joblib import Parallel, delayed

import tilewise as tw
from tilewise.parfor.plan.facts import cores

how = SimpleNamespace(mode=None, workers=None)  # None: chosen by tw
PROGRAMS: dict[str, Program] = {}


@dataclass(frozen=True)
class Program:
    """A loop, how joblib's users write it, and its inputs for a scale."""

    loop: Callable[..., Any]
    inputs: Callable[[float], tuple[Any, ...]]
    joblib: Callable[..., Any]
    prange: Callable[..., Any] | None = None
    modes: tuple[str | None, ...] = (None,)  # in which tw runs it, here
    same_draws: bool = True  # joblib draws the same random numbers


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
    for i in tw.parfor(range(n), mode=how.mode, workers=how.workers):
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


PROGRAMS["pearson"] = Program(pearson, columns, pearson_joblib, modes=(None, "threads", "processes"))

# -- cross-validation and a grid of hyper-parameters -----------------------------------------------------------------


def regression(scale: float) -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(round(120_000 * scale), 100))
    return X, X @ rng.normal(size=100) + rng.normal(size=len(X))


def ridge(A: Any, b: Any, penalty: float) -> Any:
    return np.linalg.solve(A.T @ A + penalty * np.eye(A.shape[1]), A.T @ b)


def logistic(A: Any, b: Any, penalty: float) -> Any:
    w = np.zeros(A.shape[1])
    for _ in range(6):
        p = 1 / (1 + np.exp(-(A @ w)))
        H = (A * (p * (1 - p))[:, None]).T @ A + penalty * np.eye(A.shape[1])
        w = w - np.linalg.solve(H, A.T @ (p - b) + penalty * w)
    return w


def fold_error(fit: Any, X: Any, y: Any, folds: int, k: int, penalty: float) -> Any:
    test = np.arange(len(X)) % folds == k
    w = fit(X[~test], y[~test], penalty)
    return ((X[test] @ w - y[test]) ** 2).mean()


def cross_validation(fit: Any, X: Any, y: Any, folds: int) -> Any:
    errors = np.zeros(folds)
    for k in tw.parfor(range(folds), mode=how.mode, workers=how.workers):
        errors[k] = fold_error(fit, X, y, folds, k, 1.0)
    return errors


def cross_validation_joblib(fit: Any, X: Any, y: Any, folds: int) -> Any:
    return np.array(jobs(fold_error, ((fit, X, y, folds, k, 1.0) for k in range(folds))))


def logistic_inputs(scale: float) -> tuple[Any, ...]:
    X, y = regression(scale / 3)
    return logistic, X, (y > 0).astype(float), 10


PROGRAMS["ridge, 10 folds"] = Program(
    cross_validation, lambda scale: (ridge, *regression(scale), 10), cross_validation_joblib
)
PROGRAMS["logistic, 10 folds"] = Program(cross_validation, logistic_inputs, cross_validation_joblib)


def grid(X: Any, y: Any, penalties: Any, folds: int) -> Any:
    errors = np.zeros((len(penalties), folds))
    for p in tw.parfor(range(len(penalties)), mode=how.mode, workers=how.workers):
        for k in tw.parfor(range(folds)):
            errors[p, k] = fold_error(ridge, X, y, folds, k, penalties[p])
    return errors


def grid_joblib(X: Any, y: Any, penalties: Any, folds: int) -> Any:
    found = jobs(fold_error, ((ridge, X, y, folds, k, p) for p in penalties for k in range(folds)))
    return np.array(found).reshape(len(penalties), folds)


PROGRAMS["hyper-parameter grid"] = Program(
    grid, lambda scale: (*regression(scale / 3), 10.0 ** np.arange(-4, 4), 5), grid_joblib
)

# -- a bagged ensemble -----------------------------------------------------------------------------------------------


def bagging_inputs(scale: float) -> tuple[Any, ...]:
    X, y = regression(scale / 3)
    return X, y, X[:500], 40


def bagging(X: Any, y: Any, T: Any, models: int) -> Any:
    votes = np.zeros((models, len(T)))
    rng = np.random.default_rng(7)
    for m in tw.parfor(range(models), mode=how.mode, workers=how.workers, rng=rng):
        rows = rng.integers(0, len(X), len(X))
        votes[m] = T @ ridge(X[rows], y[rows], 1.0)
    return votes.mean(axis=0)


def _one_model(X: Any, y: Any, T: Any, seed: int) -> Any:
    rows = np.random.default_rng(seed).integers(0, len(X), len(X))
    return T @ ridge(X[rows], y[rows], 1.0)


def bagging_joblib(X: Any, y: Any, T: Any, models: int) -> Any:
    return np.array(jobs(_one_model, ((X, y, T, m) for m in range(models)))).mean(axis=0)


PROGRAMS["bagged ensemble"] = Program(bagging, bagging_inputs, bagging_joblib, same_draws=False)

# -- counts and statistics of columns --------------------------------------------------------------------------------


def counts_inputs(scale: float) -> tuple[Any, ...]:
    rng = np.random.default_rng(2)
    rows = round(400_000 * scale)
    return np.asfortranarray(rng.integers(0, 20, (rows, 100))), rng.integers(0, 5, rows), 20, 5


def counts(X: Any, y: Any, values: int, kinds: int) -> Any:
    table = np.zeros((X.shape[1], kinds, values))
    for j in tw.parfor(range(X.shape[1]), mode=how.mode, workers=how.workers):
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
    for j in tw.parfor(range(X.shape[1]), mode=how.mode, workers=how.workers):
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
    counted_loops, lambda scale: counts_inputs(scale / 2), counted_joblib, counted_prange
)


def pixels_inputs(scale: float) -> tuple[Any, ...]:
    return round(1000 * scale), round(1200 * scale), 100


def pixel(i: int, j: int, height: int, width: int, most: int) -> int:
    a, b = -2 + 3 * j / width, -1.2 + 2.4 * i / height
    x = y = 0.0
    n = 0
    while n < most and x * x + y * y < 4:
        x, y = x * x - y * y + a, 2 * x * y + b
        n += 1
    return n


def pixels(height: int, width: int, most: int) -> Any:
    out = np.zeros((height, width), np.int64)
    for i in tw.parfor(range(height), mode=how.mode, workers=how.workers):
        for j in range(width):
            out[i, j] = pixel(i, j, height, width, most)
    return out


def _pixel_row(i: int, height: int, width: int, most: int) -> Any:
    return [pixel(i, j, height, width, most) for j in range(width)]


def pixels_joblib(height: int, width: int, most: int) -> Any:
    return np.array(jobs(_pixel_row, ((i, height, width, most) for i in range(height))))


_pixel = numba.njit(pixel)


@numba.njit(parallel=True)  # type: ignore[untyped-decorator,unused-ignore]
def pixels_prange(height: int, width: int, most: int) -> Any:
    out = np.zeros((height, width), np.int64)
    for i in numba.prange(height):
        for j in range(width):
            out[i, j] = _pixel(i, j, height, width, most)
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
    for i in tw.parfor(range(n), mode=how.mode, workers=how.workers):
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
