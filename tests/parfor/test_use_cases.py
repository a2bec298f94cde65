"""Programs that parallel loops are for, in every mode, against their plain loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewise as tw

KINDS = ["scale", "category", "scale", "category", "scale", "category"]


def correlations(X: Any, mode: str, workers: int) -> Any:
    n = X.shape[1]
    R, strongest = np.eye(n), 0.0
    for i in tw.parfor(range(n), mode=mode, workers=workers):
        a = X[:, i] - X[:, i].mean()
        for j in tw.parfor(range(i + 1, n)):
            b = X[:, j] - X[:, j].mean()
            r = a @ b / np.sqrt((a @ a) * (b @ b))
            R[i, j] = r
            R[j, i] = r
            strongest = max(strongest, abs(r))
    return R, strongest


def ridge_folds(X: Any, mode: str, workers: int) -> Any:
    folds, size = 5, X.shape[0] // 5
    errors, weights = np.zeros(folds), np.zeros((folds, X.shape[1] - 1))
    y, Z = X[:, 0].copy(), X[:, 1:].copy()
    for k in tw.parfor(range(folds), mode=mode, workers=workers):
        keep = np.ones(len(y), dtype=bool)
        keep[k * size : (k + 1) * size] = False
        A, b = Z[keep], y[keep]
        w = np.linalg.solve(A.T @ A + 0.1 * np.eye(Z.shape[1]), A.T @ b)
        weights[k] = w
        errors[k] = ((Z[k * size : (k + 1) * size] @ w - y[k * size : (k + 1) * size]) ** 2).mean()
    return errors, weights


def logistic(X: Any, y: Any, steps: int) -> Any:
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w -= 0.1 * (X.T @ (1 / (1 + np.exp(-(X @ w))) - y)) / len(y)
    return w


def logistic_grid(X: Any, mode: str, workers: int) -> Any:
    y = (X[:, 0] > 0).astype(float)
    rates, counts = [0.5, 1.0, 2.0], [5, 20]
    scores: dict[int, float] = {}
    for g in tw.parfor(range(6), mode=mode, workers=workers):
        rate, steps = rates[g // 2], counts[g % 2]
        w = logistic(X * rate, y, steps)
        scores[g] = float((((X * rate) @ w > 0) == y).mean())
    return list(scores.items())


def bagged(X: Any, mode: str, workers: int) -> Any:
    generator = np.random.default_rng(7)
    models: list[Any] = [None] * 6
    total = np.zeros(X.shape[1])
    for m in tw.parfor(range(6), rng=generator, mode=mode, workers=workers):
        rows = generator.integers(0, len(X), size=len(X))
        models[m] = np.median(X[rows], axis=0)
        total += models[m]
    return np.array(models), total


def naive_bayes(X: Any, mode: str, workers: int) -> Any:
    classes = (X[:, 0] > 0).astype(int)
    codes = np.clip(np.floor(X * 2) + 4, 0, 7).astype(int)
    counts = np.zeros((X.shape[1], 2, 8), dtype=int)
    for c in tw.parfor(range(X.shape[1]), mode=mode, workers=workers):
        for value in range(8):
            for k in range(2):
                counts[c, k, value] = np.count_nonzero((codes[:, c] == value) & (classes == k))
    return (counts,)


def eta(values: Any, groups: Any) -> float:
    total = ((values - values.mean()) ** 2).sum()
    within = 0.0
    for g in range(3):
        part = values[groups == g]
        within += ((part - part.mean()) ** 2).sum() if len(part) else 0.0
    return float(1 - within / total)


def bivariate(X: Any, mode: str, workers: int) -> Any:
    n = len(KINDS)
    groups = np.clip(np.round(X), -1, 1).astype(int) + 1
    out, kinds = np.full((n, n), np.nan), KINDS
    for i in tw.parfor(range(n), mode=mode, workers=workers):
        for j in range(n):
            if kinds[i] == "scale" and kinds[j] == "scale":
                out[i, j] = np.corrcoef(X[:, i], X[:, j])[0, 1]
            elif kinds[i] == "scale":
                out[i, j] = eta(X[:, i], groups[:, j])
            elif kinds[j] == "category":
                table = np.zeros((3, 3))
                for a in range(3):
                    for b in range(3):
                        table[a, b] = np.count_nonzero((groups[:, i] == a) & (groups[:, j] == b))
                expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
                out[i, j] = ((table - expected) ** 2 / expected).sum()
    return (out,)


CASES: tuple[Callable[..., Any], ...] = (
    correlations,
    ridge_folds,
    logistic_grid,
    bagged,
    naive_bayes,
    bivariate,
)
X = np.random.default_rng(3).normal(size=(600, 8))


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    tasks = pytest.importorskip("tilewise.engine.ray_tasks")
    yield
    tasks.close()


def check(case: Callable[..., Any], mode: str, workers: int) -> None:
    function = tw.parallel(case)
    got, expected = function(X, mode, workers), case(X, mode, workers)
    assert function.report[0].mode == mode
    for a, b in zip(got, expected, strict=True):
        if isinstance(a, tuple):
            assert a == b
        else:
            assert np.allclose(a, b, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", ["threads", "processes"])
def test_here(case: Callable[..., Any], mode: str) -> None:
    if case is logistic_grid and mode == "threads":
        with pytest.raises(tw.ParforError, match="a dict as a result"):
            check(case, mode, 2)
    else:
        check(case, mode, 2)


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("workers", [2, 4])
def test_on_a_cluster(case: Callable[..., Any], workers: int, cluster: None) -> None:
    check(case, "cluster", workers)
