"""Two rank-one updates and two matrix-vector products, all arguments updated in place."""

import numpy as np

KIND = "array"
SMALL = 10
MEDIUM = 1300


def initialize(n):
    rng = np.random.default_rng(76)
    return 1.5, 1.2, rng.random((n, n)), *rng.random((6, n)), np.zeros(n), np.zeros(n)


def program(alpha, beta, a, u1, v1, u2, v2, y, z, w, x):
    a += np.outer(u1, v1) + np.multiply.outer(u2, v2)
    x += beta * y @ a + z
    w += alpha * a @ x
