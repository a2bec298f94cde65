"""Symmetric rank-k and rank-2k updates of a lower triangle, row by row."""

import numpy as np

KIND = "element"
SMALL = 8
MEDIUM = 78


def initialize(n):
    rng = np.random.default_rng(74)
    return 1.5, 1.2, rng.random((n, n)), rng.random((n, n + 4)), rng.random((n, n + 4))


def program(alpha, beta, c, a, b):
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, : i + 1] += alpha * a[i, k] * a[: i + 1, k]
    for i in range(a.shape[0]):
        c[i, : i + 1] *= beta
        c[i, : i + 1] += alpha * (a[: i + 1] @ b[i]) + alpha * (b[: i + 1] @ a[i])
