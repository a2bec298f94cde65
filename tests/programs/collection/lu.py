"""LU decomposition in place without pivoting, by rows and dot products of views."""

import numpy as np

KIND = "element"
SMALL = 12
MEDIUM = 80


def initialize(n):
    a = np.random.default_rng(13).random((n, n))
    return (a + n * np.eye(n),)


def program(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]
