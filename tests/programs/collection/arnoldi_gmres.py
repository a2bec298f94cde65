"""GMRES: Arnoldi's basis as a list of vectors, least squares at the end."""

import numpy as np

KIND = "array"
SMALL = 20
MEDIUM = 1200


def initialize(n):
    rng = np.random.default_rng(24)
    return np.eye(n) * 4 + rng.standard_normal((n, n)) / np.sqrt(n), rng.standard_normal(n)


def program(a, b):
    m = 15
    beta = np.linalg.norm(b)
    q = [b / beta]
    h = np.zeros((m + 1, m))
    for j in range(m):
        w = a @ q[j]
        for i in range(j + 1):
            h[i, j] = np.dot(q[i], w)
            w -= h[i, j] * q[i]
        h[j + 1, j] = np.linalg.norm(w)
        q.append(w / h[j + 1, j])
    e = np.zeros(m + 1)
    e[0] = beta
    y, *_ = np.linalg.lstsq(h, e, rcond=None)
    x = np.stack(q[:m], axis=1) @ y
    return x, np.linalg.norm(a @ x - b) / beta < 1e-3
