"""LU with partial pivoting, rows swapped through fancy indexing, and a solve."""

import numpy as np

KIND = "element"
SMALL = 12
MEDIUM = 210


def initialize(n):
    rng = np.random.default_rng(14)
    return rng.standard_normal((n, n)), rng.standard_normal(n)


def program(a, b):
    n = len(a)
    order = np.arange(n)
    for k in range(n - 1):
        p = k + np.argmax(np.abs(a[k:, k]))
        if p != k:
            a[[k, p]] = a[[p, k]]
            order[k], order[p] = order[p], order[k]
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    x = b[order]
    for i in range(1, n):
        x[i] -= a[i, :i] @ x[:i]
    for i in range(n - 1, -1, -1):
        x[i] = (x[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return order, x
