"""Lanczos tridiagonalisation with full reorthogonalisation, then eigvalsh."""

import numpy as np

KIND = "array"
SMALL = 20
MEDIUM = 1600


def initialize(n):
    rng = np.random.default_rng(22)
    a = rng.standard_normal((n, n))
    return a + a.T, rng.standard_normal(n)


def program(a, start):
    steps = 12
    basis = np.zeros((steps + 1, len(start)))
    alpha, beta = np.zeros(steps), np.zeros(steps)
    basis[0] = start / np.sqrt(np.sum(start**2))
    for k in range(steps):
        w = a.dot(basis[k])
        alpha[k] = w @ basis[k]
        w -= basis[: k + 1].T @ (basis[: k + 1] @ w)
        w -= basis[: k + 1].T @ (basis[: k + 1] @ w)
        beta[k] = np.linalg.norm(w)
        basis[k + 1] = w / beta[k]
    t = np.diag(alpha) + np.diag(beta[:-1], 1) + np.diag(beta[:-1], -1)
    return alpha, beta, np.linalg.eigvalsh(t)
