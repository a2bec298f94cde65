"""Modified Gram-Schmidt by columns."""

import numpy as np

KIND = "array"
SMALL = 10
MEDIUM = 160


def initialize(n):
    return (np.random.default_rng(16).standard_normal((2 * n, n)),)


def program(a):
    n = a.shape[1]
    q = np.zeros_like(a)
    r = np.zeros((n, n), dtype=a.dtype)
    for k in range(n):
        v = a[:, k].copy()
        r[k, k] = np.sqrt(v @ v)
        q[:, k] = v / r[k, k]
        r[k, k + 1 :] = q[:, k] @ a[:, k + 1 :]
        a[:, k + 1 :] -= q[:, k, np.newaxis] * r[k, k + 1 :]
    return q, r
