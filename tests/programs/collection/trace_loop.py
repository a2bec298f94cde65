"""A scalar accumulated over the diagonal by a loop, added to the whole matrix."""

import numpy as np

KIND = "element"
SMALL = 20
MEDIUM = 2100


def initialize(n):
    return (np.random.default_rng(71).random((n, n)),)


def program(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace
