"""Mandelbrot with a mask over the whole grid."""

import numpy as np

KIND = "array"
SMALL = 14
MEDIUM = 270


def initialize(n):
    return -2.25, 0.75, -1.25, 1.25, n, n + 4, 30


def program(xmin, xmax, ymin, ymax, width, height, most):
    x = np.linspace(xmin, xmax, width)
    y = np.linspace(ymin, ymax, height)
    c = x + y[:, None] * 1j
    counts = np.zeros(c.shape, dtype=np.int64)
    z = np.zeros_like(c)
    for k in range(most):
        inside = np.abs(z) < 2.0
        counts[inside] = k
        z[inside] = z[inside] ** 2 + c[inside]
    counts[counts == most - 1] = 0
    return z, counts
