"""Integer arithmetic on whole arrays with the method clip."""

import numpy as np

KIND = "array"
SMALL = 10
MEDIUM = 1500


def initialize(n):
    rng = np.random.default_rng(72)
    a = rng.integers(0, 1000, size=(n, n))
    b = rng.integers(0, 1000, size=(n, n))
    return a, b, np.int64(4), np.int64(3), 9


def program(first, second, a, b, c):
    return first.clip(2, 10) * a + second * b + c
