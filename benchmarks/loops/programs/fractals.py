"""Iterations per point of the plane, by `while` and by `break`."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import loops


def mandelbrot_parallel(h, w, most):
    out = np.zeros((h, w), dtype=np.int64)
    for i in prange(h):
        for j in range(w):
            a, b = -2.0 + 2.6 * j / w, -1.2 + 2.4 * i / h
            x = y = 0.0
            k = 0
            while k < most and x * x + y * y <= 4.0:
                x, y = x * x - y * y + a, 2.0 * x * y + b
                k += 1
            out[i, j] = k
    return out


@loops(
    lambda n: (n, n, 80),
    40,
    200,
    parallel=mandelbrot_parallel,
    c=lambda lib, h, w, most: lib("mandelbrot", h, w, most, out=np.empty((h, w), np.int64)),
)
def mandelbrot(h, w, most):
    out = np.zeros((h, w), dtype=np.int64)
    for i in range(h):
        for j in range(w):
            a, b = -2.0 + 2.6 * j / w, -1.2 + 2.4 * i / h
            x = y = 0.0
            k = 0
            while k < most and x * x + y * y <= 4.0:
                x, y = x * x - y * y + a, 2.0 * x * y + b
                k += 1
            out[i, j] = k
    return out


def mandelbrot_complex_parallel(c, most):
    out = np.zeros(c.shape, dtype=np.int32)
    for i in prange(c.shape[0]):
        for j in range(c.shape[1]):
            z = 0j
            for k in range(most):
                if abs(z) > 2.0:
                    break
                z = z * z + c[i, j]
                out[i, j] = k + 1
    return out


def _plane(n):
    return np.linspace(-2.0, 0.6, n) + 1j * np.linspace(-1.2, 1.2, n)[:, None], 60


@loops(_plane, 40, 160, parallel=mandelbrot_complex_parallel)
def mandelbrot_complex(c, most):
    out = np.zeros(c.shape, dtype=np.int32)
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            z = 0j
            for k in range(most):
                if abs(z) > 2.0:
                    break
                z = z * z + c[i, j]
                out[i, j] = k + 1
    return out


def newton_basins_parallel(n, turns):
    out = np.zeros((n, n), dtype=np.uint8)
    for i in prange(n):
        for j in range(n):
            z = complex(-1.5 + 3.0 * j / n, -1.5 + 3.0 * i / n + 1e-9)
            for _ in range(turns):
                z = z - (z * z * z - 1.0) / (3.0 * z * z)
            out[i, j] = 1 if z.real > 0.5 else 2 if z.imag > 0.0 else 3
    return out


@loops(lambda n: (n, 25), 30, 120, parallel=newton_basins_parallel)
def newton_basins(n, turns):
    out = np.zeros((n, n), dtype=np.uint8)
    for i in range(n):
        for j in range(n):
            z = complex(-1.5 + 3.0 * j / n, -1.5 + 3.0 * i / n + 1e-9)
            for _ in range(turns):
                z = z - (z * z * z - 1.0) / (3.0 * z * z)
            out[i, j] = 1 if z.real > 0.5 else 2 if z.imag > 0.0 else 3
    return out


@loops(lambda n: (n, 3.5, 4.0, 100), 60, 3_000)
def logistic_bifurcation(n, low, high, keep):
    out = np.empty((n, keep))
    for i in range(n):
        r = low + (high - low) * i / n
        x = 0.5
        for _ in range(100):
            x = r * x * (1.0 - x)
        for k in range(keep):
            x = r * x * (1.0 - x)
            out[i, k] = x
    return out
