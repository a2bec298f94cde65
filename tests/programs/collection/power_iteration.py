"""Dominant eigenpair by power iteration until it settles, then a deflation."""

import numpy as np

KIND = "array"
SMALL = 12
MEDIUM = 1400


def initialize(n):
    a = np.random.default_rng(21).random((n, n))
    return ((a + a.T) / 2,)


def dominant(a, most=60):
    x = np.ones(a.shape[0])
    value = 0.0
    steps = 0
    while steps < most:
        y = a @ x
        x = y / np.linalg.norm(y)
        new = x @ a @ x
        if abs(new - value) < 1e-6 * abs(new):
            break
        value = new
        steps += 1
    return new, x, steps


def program(a):
    value, vector, steps = dominant(a)
    a -= value * np.outer(vector, vector)
    return value, vector, steps, np.trace(a)
