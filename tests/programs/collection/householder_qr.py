"""Householder QR with explicit reflectors applied to views."""

import numpy as np

KIND = "array"
SMALL = 9
MEDIUM = 130


def initialize(n):
    return (np.random.default_rng(17).standard_normal((n + 5, n)),)


def reflector(x):
    v = x.copy()
    alpha = -np.copysign(np.linalg.norm(x), x[0])
    v[0] -= alpha
    norm = np.linalg.norm(v)
    return v / norm if norm > 0 else v


def program(a):
    m, n = a.shape
    q = np.eye(m)
    for k in range(min(m - 1, n)):
        v = reflector(a[k:, k])
        block = a[k:, k:]
        block -= 2.0 * np.outer(v, v @ block)
        q[:, k:] -= 2.0 * np.outer(q[:, k:] @ v, v)
    a[np.tril_indices(m, -1, n)] = 0.0
    return q, np.triu(a)
