"""Stencils in slices: sweeps over a grid, time steps, filters of an image."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.kernels.registry import ND, Inputs, program, side, uniform

SWEEPS = 10
TAPS = (0.0625, 0.25, 0.375, 0.25, 0.0625)
KERNEL = ((0.1, 0.2, -0.1), (0.05, 0.5, 0.05), (-0.1, 0.2, 0.1))


def square(n: int) -> Inputs:
    return (uniform(side(n), side(n)),)


# --- ten Jacobi sweeps ------------------------------------------------------------------------------------


def numba_jacobi(numba: Any, jit: Any) -> Any:
    @jit
    def f(u: ND) -> ND:
        a, b = u.copy(), u.copy()
        for _ in range(SWEEPS):
            for i in numba.prange(1, u.shape[0] - 1):
                for j in range(1, u.shape[1] - 1):
                    b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
            a, b = b, a
        return a

    return f


def jax_jacobi(jax: Any, np: Any) -> Any:
    def sweep(_: Any, u: Any) -> Any:
        return u.at[1:-1, 1:-1].set(0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]))

    return lambda u: jax.lax.fori_loop(0, SWEEPS, sweep, u)


@program(
    square,
    36_000_000,
    of_peer=1.5,
    numba=numba_jacobi,
    jax=jax_jacobi,
    c=lambda lib, u: lib("jacobi", *u.shape, SWEEPS, u, lib.empty(u.shape), out=lib.empty(u.shape)),
)
def jacobi(np: Any, u: Any) -> Any:
    u = u.copy()
    for _ in range(SWEEPS):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


# --- filters ----------------------------------------------------------------------------------------------


def numba_blur(numba: Any, jit: Any) -> Any:
    t0, t1, t2 = TAPS[:3]

    @jit
    def f(x: ND) -> ND:
        h, w = x.shape
        out = numpy.empty((h - 4, w - 4))
        for i in numba.prange(h - 4):
            row = t0 * (x[i] + x[i + 4]) + t1 * (x[i + 1] + x[i + 3]) + t2 * x[i + 2]
            for j in range(w - 4):
                out[i, j] = t0 * (row[j] + row[j + 4]) + t1 * (row[j + 1] + row[j + 3]) + t2 * row[j + 2]
        return out

    return f


@program(
    square,
    16_000_000,
    numba=numba_blur,
    c=lambda lib, x: lib("blur", *x.shape, x, out=lib.empty((x.shape[0] - 4, x.shape[1] - 4))),
)
def gaussian_blur(np: Any, x: Any) -> Any:
    h, w = x.shape
    rows = sum(tap * x[i : h - 4 + i, :] for i, tap in enumerate(TAPS))
    return sum(tap * rows[:, j : w - 4 + j] for j, tap in enumerate(TAPS))


def numba_harris(numba: Any, jit: Any) -> Any:
    @jit
    def f(x: ND) -> ND:
        h, w = x.shape
        out = numpy.empty((h - 4, w - 4))
        for i in numba.prange(h - 4):
            a, b, c = numpy.zeros(w - 2), numpy.zeros(w - 2), numpy.zeros(w - 2)
            for k in range(3):
                for j in range(w - 2):
                    dx = 0.5 * (x[i + k + 1, j + 2] - x[i + k + 1, j])
                    dy = 0.5 * (x[i + k + 2, j + 1] - x[i + k, j + 1])
                    a[j] += dx * dx
                    b[j] += dy * dy
                    c[j] += dx * dy
            for j in range(w - 4):
                p = a[j] + a[j + 1] + a[j + 2]
                q = b[j] + b[j + 1] + b[j + 2]
                r = c[j] + c[j + 1] + c[j + 2]
                out[i, j] = p * q - r * r - 0.05 * (p + q) ** 2
        return out

    return f


@program(
    square,
    5_760_000,
    numba=numba_harris,
    c=lambda lib, x: lib("harris", *x.shape, x, out=lib.empty((x.shape[0] - 4, x.shape[1] - 4))),
)
def harris(np: Any, x: Any) -> Any:
    def box(a: Any) -> Any:
        rows = a[:-2] + a[1:-1] + a[2:]
        return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]

    dx = 0.5 * (x[1:-1, 2:] - x[1:-1, :-2])
    dy = 0.5 * (x[2:, 1:-1] - x[:-2, 1:-1])
    a, b, c = box(dx * dx), box(dy * dy), box(dx * dy)
    return a * b - c * c - 0.05 * (a + b) ** 2


def numba_conv(numba: Any, jit: Any) -> Any:
    taps = numpy.array(KERNEL)

    @jit
    def f(x: ND) -> ND:
        h, w = x.shape
        out = numpy.empty((h - 2, w - 2))
        for i in numba.prange(h - 2):
            for j in range(w - 2):
                total = 0.0
                for k in range(3):
                    for m in range(3):
                        total += taps[k, m] * x[i + k, j + m]
                out[i, j] = total
        return out

    return f


@program(
    square,
    2_250_000,
    numba=numba_conv,
    c=lambda lib, x: lib("conv3", *x.shape, x, numpy.array(KERNEL), out=lib.empty((x.shape[0] - 2, x.shape[1] - 2))),
)
def simple_conv(np: Any, x: Any) -> Any:
    h, w = x.shape
    return sum(KERNEL[i][j] * x[i : h - 2 + i, j : w - 2 + j] for i in range(3) for j in range(3))


def c_clamped(lib: Any, x: ND) -> Any:
    h, w = x.shape
    return lib("conv3_clamped", h, w, x, numpy.array(KERNEL), lib.empty((h + 2, w + 2)), out=lib.empty(x.shape))


@program(square, 90_000, c=c_clamped)
def conv_clamped(np: Any, x: Any) -> Any:
    return simple_conv(np, np.pad(x, 1, mode="edge"))


# --- time steps -------------------------------------------------------------------------------------------


def diffusion(n: int) -> Inputs:
    return uniform(side(n), side(n)), min(max(10_000_000 // n, 10), 1_000)


def numba_diffuse(numba: Any, jit: Any) -> Any:
    @jit
    def f(u: ND, steps: int) -> ND:
        a, b = u.copy(), u.copy()
        for _ in range(steps):
            for i in numba.prange(1, u.shape[0] - 1):
                for j in range(1, u.shape[1] - 1):
                    b[i, j] = a[i, j] + 0.1 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1] - 4 * a[i, j])
            a, b = b, a
        return a

    return f


def jax_diffuse(jax: Any, np: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return u.at[1:-1, 1:-1].add(0.1 * (around - 4 * u[1:-1, 1:-1]))

    return lambda u, steps: jax.lax.fori_loop(0, steps, step, u)


@program(
    diffusion,
    10_201,
    numba=numba_diffuse,
    jax=jax_diffuse,
    c=lambda lib, u, steps: lib("diffuse", *u.shape, steps, u, lib.empty(u.shape), out=lib.empty(u.shape)),
)
def diffuse(np: Any, u: Any, steps: int) -> Any:
    u = u.copy()
    for _ in range(steps):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] += 0.1 * (around - 4 * u[1:-1, 1:-1])
    return u


STEPS = 20


def fields(n: int) -> Inputs:
    s = side(n)
    return uniform(s, s), uniform(s, s, seed=1), uniform(s, s, seed=2)


def numba_fdtd(numba: Any, jit: Any) -> Any:
    @jit
    def f(ex: ND, ey: ND, hz: ND) -> tuple[ND, ND, ND]:
        ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
        h, w = hz.shape
        for _ in range(STEPS):
            for i in numba.prange(h):
                if i > 0:
                    for j in range(w):
                        ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
                for j in range(1, w):
                    ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
            for i in numba.prange(h - 1):
                for j in range(w - 1):
                    hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])
        return ex, ey, hz

    return f


def jax_fdtd(jax: Any, np: Any) -> Any:
    def step(_: Any, fields: Any) -> Any:
        ex, ey, hz = fields
        ey = ey.at[1:].add(-0.5 * (hz[1:] - hz[:-1]))
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        return ex, ey, hz.at[:-1, :-1].add(-0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]))

    return lambda *fields: jax.lax.fori_loop(0, STEPS, step, fields)


@program(
    fields,
    1_000_000,
    numba=numba_fdtd,
    jax=jax_fdtd,
    c=lambda lib, ex, ey, hz: lib("fdtd", *hz.shape, STEPS, ex, ey, hz, out=tuple(lib.empty(hz.shape) for _ in "xyz")),
)
def fdtd(np: Any, ex: Any, ey: Any, hz: Any) -> Any:
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for _ in range(STEPS):
        ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz
