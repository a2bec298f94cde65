"""Sparse matrix times vector with np.add.reduceat, empty rows put right, inside Jacobi's iteration."""

import numpy as np

KIND = "array"
SMALL = 30
MEDIUM = 23000


def initialize(n):
    rng = np.random.default_rng(80)
    counts = rng.integers(0, 6, n)
    starts = np.concatenate(([0], np.cumsum(counts)))
    return starts, rng.integers(0, n, starts[-1]), rng.random(starts[-1]), rng.random(n)


def multiply(starts, columns, values, x):
    products = np.append(values * x[columns], 0.0)
    y = np.add.reduceat(products, starts[:-1])
    y[np.diff(starts) == 0] = 0
    return y


def program(starts, columns, values, b):
    x = np.zeros(len(b))
    diagonal = 8.0 + np.repeat(0.0, b.size)
    for _ in range(12):
        x = (b - multiply(starts, columns, values, x)) / diagonal
    rows = np.repeat(np.arange(b.size), np.diff(starts))
    by_count = np.bincount(rows, weights=values * x[columns], minlength=b.size)
    return x, np.abs(by_count + diagonal * x - b).max() < 1e-2
