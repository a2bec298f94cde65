"""A Julia set that iterates until everything has escaped, with two real arrays."""

import numpy as np

KIND = "array"
SMALL = 12
MEDIUM = 230


def initialize(n):
    x, y = np.meshgrid(np.linspace(-1.5, 1.5, n), np.linspace(-1.0, 1.0, n), indexing="xy")
    return x, y, -0.8, 0.356


def program(x, y, cx, cy):
    escape = np.zeros(x.shape, dtype=np.int32)
    alive = np.ones_like(escape, dtype=bool)
    rounds = 0
    while np.any(alive) and rounds < 40:
        xt = x[alive]
        yt = y[alive]
        x[alive], y[alive] = xt * xt - yt * yt + cx, 2 * xt * yt + cy
        escape += alive
        alive &= x * x + y * y < 4.0
        rounds += 1
    rows, columns = np.nonzero(alive)
    return escape, rounds, rows, columns
