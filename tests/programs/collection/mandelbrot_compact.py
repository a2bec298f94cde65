"""Mandelbrot with the points that escaped taken out of the arrays."""

import numpy as np

KIND = "array"
SMALL = 14
MEDIUM = 290


def initialize(n):
    return n, n + 6, 25


def program(width, height, most):
    i, j = np.mgrid[0:height, 0:width]
    x = np.linspace(-2.0, 0.5, width, dtype=np.float64)[j]
    y = np.linspace(-1.25, 1.25, height, dtype=np.float64)[i]
    c = x + 1j * y
    counts = np.zeros(c.shape, dtype=np.int64)
    i.shape = j.shape = c.shape = width * height
    z = np.zeros(c.shape, np.complex128)
    for k in range(most):
        if not len(z):
            break
        np.multiply(z, z, z)
        np.add(z, c, z)
        gone = abs(z) > 2.0
        counts[i[gone], j[gone]] = k + 1
        left = ~gone
        i, j, z, c = i[left], j[left], z[left], c[left]
    return counts.T, len(z)
