"""Explicit heat equation in three dimensions."""

import numpy as np

KIND = "array"
SMALL = 8
MEDIUM = 36


def initialize(n):
    a = np.fromfunction(lambda i, j, k: (i + j + (n - k)) * 10 / n, (n, n, n))
    return 12, a, np.copy(a)


def laplacian(u):
    mid = u[1:-1, 1:-1, 1:-1]
    d2x = u[2:, 1:-1, 1:-1] - 2.0 * mid + u[:-2, 1:-1, 1:-1]
    d2y = u[1:-1, 2:, 1:-1] - 2.0 * mid + u[1:-1, :-2, 1:-1]
    d2z = u[1:-1, 1:-1, 2:] - 2.0 * mid + u[1:-1, 1:-1, :-2]
    return 0.125 * d2x + 0.125 * d2y + 0.125 * d2z


def program(steps, a, b):
    for _ in range(steps):
        b[1:-1, 1:-1, 1:-1] = laplacian(a) + a[1:-1, 1:-1, 1:-1]
        a[1:-1, 1:-1, 1:-1] = laplacian(b) + b[1:-1, 1:-1, 1:-1]
