"""Tridiagonal systems by Thomas's algorithm over elements, and many at once over columns."""

import numpy as np

KIND = "element"
SMALL = 20
MEDIUM = 2500


def initialize(n):
    rng = np.random.default_rng(85)
    return rng.random(n - 1), rng.random(n) + 3, rng.random(n - 1), rng.random(n), rng.random((n, 4))


def program(lower, diagonal, upper, d, many):
    n = len(d)
    c, b = upper.copy(), diagonal.copy()
    x = many
    for i in range(1, n):
        m = lower[i - 1] / b[i - 1]
        b[i] = b[i] - m * c[i - 1]
        d[i] = d[i] - m * d[i - 1]
        x[i] -= m * x[i - 1]
    d[-1] /= b[-1]
    x[-1] /= b[-1]
    for i in range(n - 2, -1, -1):
        d[i] = (d[i] - c[i] * d[i + 1]) / b[i]
        x[i] = (x[i] - c[i] * x[i + 1]) / b[i]
    return x.sum(axis=0)
