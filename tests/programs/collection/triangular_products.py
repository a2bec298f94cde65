"""Triangular and symmetric matrix products in place, row by row and element by element."""

import numpy as np

KIND = "element"
SMALL = 8
MEDIUM = 50


def initialize(n):
    rng = np.random.default_rng(75)
    return 1.5, rng.random((n, n)), rng.random((n, n + 2)), rng.random((n, n + 2))


def program(alpha, a, b, c):
    n, m = b.shape
    for i in range(n):
        for j in range(m):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
    b *= alpha
    saved = np.empty((m,), dtype=c.dtype)
    for i in range(n):
        for j in range(m):
            c[:i, j] += alpha * b[i, j] * a[i, :i]
            saved[j] = b[:i, j] @ a[i, :i]
        c[i, :] += alpha * b[i, :] * a[i, i] + alpha * saved
