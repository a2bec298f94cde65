"""Loops along axes without gaps that the code cannot know of: vectors where there are none, the same results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewise as tw


@tw.jit(strict=True)
def columns(X: Any, out: Any) -> Any:
    total = 0.0
    for j in range(X.shape[1]):
        x = X[:, j]
        out[:, j] = x - x.mean()
        total += (x @ out[:, j]) / (1 + x.sum() ** 2)
    return total


@tw.jit(strict=True)
def shifted(X: Any, out: Any, by: Any) -> None:
    for j in range(X.shape[1]):
        for i in range(1, X.shape[0] - 1):
            out[i, j] = X[i - 1, j] + by[i] * X[1 + i, j]


def layouts(a: Any) -> list[Any]:
    """The same numbers in C order, Fortran's, with gaps, and backwards."""
    wide = np.zeros((2 * a.shape[0], a.shape[1]), order="F")
    wide[::2] = a
    return [a.copy("C"), a.copy("F"), wide[::2], a[::-1].copy("F")[::-1]]


@pytest.mark.parametrize("rows", [0, 1, 3, 70, 301])
def test_all_layouts(rows: int) -> None:
    a = np.round(np.random.default_rng(rows).normal(size=(rows, 3)) * 8)  # sums without rounding
    by = np.arange(rows) / 2.0
    for x in layouts(a):
        for out in layouts(np.zeros_like(a)):
            if rows:
                want = sum(x[:, j] @ (x[:, j] - x[:, j].mean()) / (1 + x[:, j].sum() ** 2) for j in range(3))
                assert np.isclose(columns(x, out), want, rtol=1e-12)
                np.testing.assert_allclose(out, x - x.mean(axis=0), rtol=1e-13, atol=1e-13)
            shifted(x, out, by)
            np.testing.assert_array_equal(out[1:-1], x[:-2] + by[1:-1, None] * x[2:])


def test_columns_become_vectors() -> None:
    def of(order: Any) -> int:
        X = np.asarray(np.ones((40, 3)), order=order)
        found = re.search(r"loops with vectors: (\d+)", str(tw.explain(columns, X, X.copy(order))))
        assert found is not None
        return int(found[1])

    assert of("F") > 10  # seven, were each loop there once
