"""LDL^T factorisation with the diagonal kept apart."""

import numpy as np

KIND = "element"
SMALL = 16
MEDIUM = 650


def initialize(n):
    a = np.random.default_rng(20).standard_normal((n, n))
    return ((a + a.T) / 2 + 2 * n * np.diag(np.ones(n)),)


def program(a):
    n = len(a)
    lower = np.identity(n)
    d = np.full(n, np.nan)
    for j in range(n):
        w = lower[j, :j] * d[:j]
        d[j] = a[j, j] - lower[j, :j].dot(w)
        lower[j + 1 :, j] = (a[j + 1 :, j] - lower[j + 1 :, :j] @ w) / d[j]
    assert not np.isnan(d).any()
    return lower, d, np.prod(np.sign(d))
