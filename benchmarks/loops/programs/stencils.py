"""Stencils, in loops and in slices."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import loops, rng


def _grid(*shape):
    return rng().random(shape)


@loops(lambda n: (20, _grid(n), _grid(n)), 1_000, 20_000, written=(1, 2))
def jacobi_1d(steps, A, B):
    for _ in range(1, steps):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])


def jacobi_2d_parallel(steps, A, B):
    n, m = A.shape
    for _ in range(steps):
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                A[i, j] = 0.2 * (B[i, j] + B[i, j - 1] + B[i, j + 1] + B[i + 1, j] + B[i - 1, j])


@loops(
    lambda n: (10, _grid(n, n), _grid(n, n)),
    40,
    250,
    written=(1, 2),
    parallel=jacobi_2d_parallel,
    c=lambda lib, steps, a, b: lib("jacobi_2d", len(a), steps, out=(a, b)),
)
def jacobi_2d(steps, A, B):
    n, m = A.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                A[i, j] = 0.2 * (B[i, j] + B[i, j - 1] + B[i, j + 1] + B[i + 1, j] + B[i - 1, j])


@loops(
    lambda n: (10, _grid(n, n), _grid(n, n)),
    100,
    500,
    written=(1, 2),
    own=jacobi_2d_parallel,
    parallel=jacobi_2d_parallel,
)
def jacobi_2d_slices(steps, A, B):
    for _ in range(steps):
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])


@loops(
    lambda n: (5, _grid(n, n)),
    40,
    200,
    written=(1,),
    c=lambda lib, steps, a: lib("seidel", len(a), steps, out=a),
)
def seidel(steps, A):
    n = A.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                s = A[i - 1, j - 1] + A[i - 1, j] + A[i - 1, j + 1] + A[i, j - 1] + A[i, j]
                A[i, j] = (s + A[i, j + 1] + A[i + 1, j - 1] + A[i + 1, j] + A[i + 1, j + 1]) / 9.0


@loops(lambda n: (5, _grid(n, n)), 60, 250, written=(1,))
def seidel_slices(steps, A):
    n = A.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            A[i, 1:-1] += A[i - 1, :-2] + A[i - 1, 1:-1] + A[i - 1, 2:] + A[i, 2:]
            A[i, 1:-1] += A[i + 1, :-2] + A[i + 1, 1:-1] + A[i + 1, 2:]
            for j in range(1, n - 1):
                A[i, j] += A[i, j - 1]
                A[i, j] /= 9.0


def heat_3d_parallel(steps, A, B):
    n, m, o = A.shape
    for t in range(2 * steps):
        X, Y = (A, B) if t % 2 == 0 else (B, A)
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                for k in range(1, o - 1):
                    Y[i, j, k] = (
                        0.125 * (X[i + 1, j, k] - 2.0 * X[i, j, k] + X[i - 1, j, k])
                        + 0.125 * (X[i, j + 1, k] - 2.0 * X[i, j, k] + X[i, j - 1, k])
                        + 0.125 * (X[i, j, k + 1] - 2.0 * X[i, j, k] + X[i, j, k - 1])
                        + X[i, j, k]
                    )


@loops(
    lambda n: (5, _grid(n, n, n), _grid(n, n, n)),
    20,
    64,
    written=(1, 2),
    own=heat_3d_parallel,
    parallel=heat_3d_parallel,
)
def heat_3d(steps, A, B):
    for _ in range(steps):
        B[1:-1, 1:-1, 1:-1] = (
            0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1])
            + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, :-2, 1:-1])
            + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, 1:-1, :-2])
            + A[1:-1, 1:-1, 1:-1]
        )
        A[1:-1, 1:-1, 1:-1] = (
            0.125 * (B[2:, 1:-1, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[:-2, 1:-1, 1:-1])
            + 0.125 * (B[1:-1, 2:, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, :-2, 1:-1])
            + 0.125 * (B[1:-1, 1:-1, 2:] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, 1:-1, :-2])
            + B[1:-1, 1:-1, 1:-1]
        )


def wave_2d_parallel(steps, c, before, now):
    n, m = now.shape
    after = np.zeros((n, m))
    for _ in range(steps):
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4.0 * now[i, j]
                after[i, j] = 2.0 * now[i, j] - before[i, j] + c * around
        before, now, after = now, after, before
    return now.copy()


@loops(lambda n: (10, 0.2, _grid(n, n), _grid(n, n)), 40, 200, written=(2, 3), parallel=wave_2d_parallel)
def wave_2d(steps, c, before, now):
    n, m = now.shape
    after = np.zeros((n, m))
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4.0 * now[i, j]
                after[i, j] = 2.0 * now[i, j] - before[i, j] + c * around
        before, now, after = now, after, before
    return now.copy()


@loops(lambda n: (10, 1.7, _grid(n, n), _grid(n, n)), 40, 200, written=(2,))
def red_black_sor(steps, omega, u, f):
    n, m = u.shape
    change = 0.0
    for _ in range(steps):
        change = 0.0
        for colour in range(2):
            for i in range(1, n - 1):
                for j in range(1 + (i + colour) % 2, m - 1, 2):
                    new = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
                    d = omega * (new - u[i, j])
                    u[i, j] += d
                    change = max(change, abs(d))
    return change


def life_parallel(steps, world):
    n, m = world.shape
    for _ in range(steps):
        new = np.zeros_like(world)
        for i in prange(n):
            for j in range(m):
                alive = 0
                for di in range(-1, 2):
                    for dj in range(-1, 2):
                        if di != 0 or dj != 0:
                            alive += world[(i + di) % n, (j + dj) % m]
                if alive == 3 or (alive == 2 and world[i, j] == 1):
                    new[i, j] = 1
        world = new
    return world


@loops(
    lambda n: (4, rng().integers(0, 2, (n, n)).astype(np.uint8)),
    32,
    140,
    parallel=life_parallel,
)
def game_of_life(steps, world):
    n, m = world.shape
    for _ in range(steps):
        new = np.zeros_like(world)
        for i in range(n):
            for j in range(m):
                alive = 0
                for di in (-1, 0, 1):
                    for dj in (-1, 0, 1):
                        if di != 0 or dj != 0:
                            alive += int(world[(i + di) % n, (j + dj) % m])
                if alive == 3 or (alive == 2 and world[i, j] == 1):
                    new[i, j] = 1
        world = new
    return world
