"""Non-negative matrix factorisation by multiplicative updates in place."""

import numpy as np

KIND = "array"
SMALL = 12
MEDIUM = 490


def initialize(n):
    rng = np.random.default_rng(31)
    return rng.random((n, n + 10)), rng.random((n, 8)), rng.random((8, n + 10))


def program(v, w, h):
    tiny = np.finfo(v.dtype).eps
    for _ in range(25):
        h *= (w.T @ v) / (w.T @ w @ h + tiny)
        w *= (v @ h.T) / (w @ (h @ h.T) + tiny)
    return np.linalg.norm(v - w @ h, "fro")
