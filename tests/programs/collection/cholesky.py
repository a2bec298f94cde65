"""Cholesky factorisation in place, the inner loop as dot products."""

import numpy as np

KIND = "element"
SMALL = 12
MEDIUM = 100


def initialize(n):
    b = np.random.default_rng(15).random((n, n))
    return (b @ b.T + n * np.eye(n),)


def program(a):
    a[0, 0] = np.sqrt(a[0, 0])
    for i in range(1, a.shape[0]):
        for j in range(i):
            a[i, j] -= np.dot(a[i, :j], a[j, :j])
            a[i, j] /= a[j, j]
        a[i, i] -= np.dot(a[i, :i], a[i, :i])
        a[i, i] = np.sqrt(a[i, i])
    return np.tril(a)
