"""Many Lorenz systems at once, the state a tuple of arrays."""

import numpy as np

KIND = "array"
SMALL = 10
MEDIUM = 15000


def initialize(n):
    start = 1.0 + 0.1 * np.random.default_rng(84).standard_normal((3, n))
    return start, 0.005, 20


def rate(x, y, z):
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - (8.0 / 3.0) * z


def shifted(state, slope, h):
    return tuple(s + h * d for s, d in zip(state, slope, strict=True))


def program(start, dt, steps):
    state = tuple(start)
    for _ in range(steps):
        k1 = rate(*state)
        k2 = rate(*shifted(state, k1, dt / 2))
        k3 = rate(*shifted(state, k2, dt / 2))
        k4 = rate(*shifted(state, k3, dt))
        for s, a, b, c, d in zip(state, k1, k2, k3, k4, strict=True):
            s += dt / 6 * (a + 2 * (b + c) + d)
    spread = np.vstack(state).std(axis=1)
    return spread, np.quantile(start[2], 0.25)
