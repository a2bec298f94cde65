"""Iterations per point of the plane: much arithmetic on little memory."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.kernels.registry import ND, Inputs, program, side

TURNS = 50
JULIA = (-0.4, 0.6)
CUTOFF = 1e6


def plane(n: int) -> Inputs:
    s = side(n)
    return (numpy.linspace(-2, 0.6, s) + 1j * numpy.linspace(-1.2, 1.2, s)[:, None],)


def numba_mandelbrot(numba: Any, jit: Any) -> Any:
    @jit
    def f(c: ND) -> ND:
        count = numpy.zeros(c.shape, dtype=numpy.int64)
        for i in numba.prange(c.shape[0]):
            for j in range(c.shape[1]):
                x = y = 0.0
                for k in range(TURNS):
                    if x * x + y * y > 4:
                        break
                    x, y = x * x - y * y + c[i, j].real, 2 * x * y + c[i, j].imag
                    count[i, j] = k + 1
        return count

    return f


@program(
    plane,
    1_000_000,
    scales=(1_000, 100_000, 1_000_000),
    numba=numba_mandelbrot,
    c=lambda lib, c: lib("mandelbrot", c.size, TURNS, c, out=numpy.empty(c.shape, dtype=numpy.int64)),
)
def mandelbrot(np: Any, c: Any) -> Any:
    z = np.zeros_like(c)
    count = np.zeros(c.shape, dtype=np.int64)
    for _ in range(TURNS):
        inside = z.real * z.real + z.imag * z.imag <= 4
        count = count + inside
        z = np.where(inside, z * z + c, z)
    return count


def coordinates(n: int) -> Inputs:
    s = side(n)
    return numpy.linspace(-1.5, 1.5, s), numpy.linspace(-1.5, 1.5, s)[:, None]


def numba_julia(numba: Any, jit: Any) -> Any:
    real, imag = JULIA

    @jit
    def f(xs: ND, ys: ND) -> ND:
        count = numpy.zeros((ys.size, xs.size), dtype=numpy.int64)
        for i in numba.prange(ys.size):
            for j in range(xs.size):
                x, y = xs[j], ys[i, 0]
                for k in range(TURNS):
                    if x * x + y * y >= CUTOFF:
                        break
                    x, y = x * x - y * y + real, 2 * x * y + imag
                    count[i, j] = k + 1
        return count

    return f


@program(
    coordinates,
    1_440_000,
    scales=(1_000, 100_000, 1_000_000),
    numba=numba_julia,
    c=lambda lib, x, y: lib(
        "julia", y.size, x.size, TURNS, *JULIA, CUTOFF, x, y, out=numpy.empty((y.size, x.size), dtype=numpy.int64)
    ),
)
def julia(np: Any, x: Any, y: Any) -> Any:
    x, y = x + 0 * y, y + 0 * x
    count = np.zeros(x.shape, dtype=np.int64)
    for _ in range(TURNS):
        inside = x * x + y * y < CUTOFF
        count = count + inside
        x, y = np.where(inside, x * x - y * y + JULIA[0], x), np.where(inside, 2 * x * y + JULIA[1], y)
    return count
