"""Finite difference time domain, two electric fields and one magnetic field."""

import numpy as np

KIND = "array"
SMALL = 10
MEDIUM = 220


def initialize(n):
    rng = np.random.default_rng(4)
    ex = rng.random((n, n + 3))
    ey = rng.random((n, n + 3))
    hz = rng.random((n, n + 3))
    source = np.arange(30, dtype=np.float64)
    return ex, ey, hz, source


def program(ex, ey, hz, source):
    for pulse in source:
        ey[0, :] = pulse
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
