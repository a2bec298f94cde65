"""Sparse matrix times vector: a loop over rows of a CSR matrix."""

import numpy as np

KIND = "element"
SMALL = 30
MEDIUM = 2600


def initialize(n):
    rng = np.random.default_rng(79)
    counts = rng.integers(0, 8, n)
    starts = np.zeros(n + 1, dtype=np.uint32)
    starts[1:] = np.cumsum(counts)
    total = int(starts[-1])
    return starts, rng.integers(0, n, total).astype(np.uint32), rng.random(total), rng.random(n)


def program(starts, columns, values, x):
    y = np.empty(starts.size - 1, values.dtype)
    for i in range(starts.size - 1):
        cols = columns[starts[i] : starts[i + 1]]
        vals = values[starts[i] : starts[i + 1]]
        y[i] = vals @ x[cols]
    return y
