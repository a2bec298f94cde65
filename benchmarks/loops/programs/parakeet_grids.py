"""Parakeet's list in loops: images and grids."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.programs.stencils import _grid
from benchmarks.loops.registry import loops, rng


def julia_parallel(n, real, imag, cutoff, most):
    out = np.zeros((n, n), dtype=np.int64)
    for i in prange(n):
        for j in range(n):
            x, y = -1.5 + 3.0 * j / n, -1.5 + 3.0 * i / n
            k = 0
            while k < most and x * x + y * y < cutoff:
                x, y = x * x - y * y + real, 2.0 * x * y + imag
                k += 1
            out[i, j] = k
    return out


@loops(
    lambda n: (n, -0.4, 0.6, 1e6, 60),
    40,
    200,
    parallel=julia_parallel,
    parakeet=True,
    c=lambda lib, n, a, b, cut, most: lib("julia", n, most, a, b, cut, out=np.empty((n, n), np.int64)),
)
def julia(n, real, imag, cutoff, most):
    out = np.zeros((n, n), dtype=np.int64)
    for i in range(n):
        for j in range(n):
            x, y = -1.5 + 3.0 * j / n, -1.5 + 3.0 * i / n
            k = 0
            while k < most and x * x + y * y < cutoff:
                x, y = x * x - y * y + real, 2.0 * x * y + imag
                k += 1
            out[i, j] = k
    return out


def harris_parallel(I):
    m, n = I.shape
    xx = np.empty((m - 2, n - 2), dtype=I.dtype)
    yy = np.empty((m - 2, n - 2), dtype=I.dtype)
    xy = np.empty((m - 2, n - 2), dtype=I.dtype)
    for i in prange(m - 2):
        for j in range(n - 2):
            dx = (I[i + 1, j + 2] - I[i + 1, j]) / np.float32(2)
            dy = (I[i + 2, j + 1] - I[i, j + 1]) / np.float32(2)
            xx[i, j] = dx * dx
            yy[i, j] = dy * dy
            xy[i, j] = dx * dy
    out = np.empty((m - 4, n - 4), dtype=I.dtype)
    for i in prange(m - 4):
        for j in range(n - 4):
            a = xx[i, j + 1] + xx[i + 1, j] + xx[i + 2, j + 1] + xx[i + 1, j + 2] + xx[i + 1, j + 1]
            b = yy[i, j + 1] + yy[i + 1, j] + yy[i + 2, j + 1] + yy[i + 1, j + 2] + yy[i + 1, j + 1]
            c = xy[i, j + 1] + xy[i + 1, j] + xy[i + 2, j + 1] + xy[i + 1, j + 2] + xy[i + 1, j + 1]
            out[i, j] = a * b - c * c - np.float32(0.05) * (a + b) * (a + b)
    return out


@loops(
    lambda n: (_grid(n, n).astype(np.float32),),
    60,
    500,
    own=harris_parallel,
    parallel=harris_parallel,
    parakeet=True,
    rtol=1e-4,
    c=lambda lib, x: lib("harris", len(x), x, out=np.empty((len(x) - 4, len(x) - 4), np.float32)),
)
def harris(I):
    dx = (I[1:-1, 2:] - I[1:-1, :-2]) / 2
    dy = (I[2:, 1:-1] - I[:-2, 1:-1]) / 2

    def cross(x):
        return x[:-2, 1:-1] + x[1:-1, :-2] + x[2:, 1:-1] + x[1:-1, 2:] + x[1:-1, 1:-1]

    a, b, c = cross(dx * dx), cross(dy * dy), cross(dx * dy)
    return a * b - c * c - 0.05 * (a + b) * (a + b)


def convolution_clamped_parallel(image, weights):
    h, w = image.shape
    a, b = weights.shape
    out = np.zeros((h, w))
    for i in prange(h):
        for j in range(w):
            s = 0.0
            for di in range(a):
                for dj in range(b):
                    y = min(max(i + di - a // 2, 0), h - 1)
                    x = min(max(j + dj - b // 2, 0), w - 1)
                    s += weights[di, dj] * image[y, x]
            out[i, j] = s
    return out


@loops(
    lambda n: (_grid(n, n), rng(1).random((5, 5))),
    30,
    200,
    parallel=convolution_clamped_parallel,
    parakeet=True,
    c=lambda lib, x, k: lib("convolution_clamped", len(x), len(k), x, k, out=np.empty_like(x)),
)
def convolution_clamped(image, weights):
    h, w = image.shape
    a, b = weights.shape
    out = np.zeros((h, w))
    for i in range(h):
        for j in range(w):
            s = 0.0
            for di in range(a):
                for dj in range(b):
                    y = min(max(i + di - a // 2, 0), h - 1)
                    x = min(max(j + dj - b // 2, 0), w - 1)
                    s += weights[di, dj] * image[y, x]
            out[i, j] = s
    return out


def simple_conv_parallel(x, weights):
    h, w = x.shape
    out = np.zeros((h - 2, w - 2))
    for i in prange(h - 2):
        for j in range(w - 2):
            s = 0.0
            for a in range(3):
                for b in range(3):
                    s += weights[a, b] * x[i + a, j + b]
            out[i, j] = s
    return out


@loops(
    lambda n: (_grid(n, n), rng(1).random((3, 3))),
    50,
    500,
    parallel=simple_conv_parallel,
    parakeet=True,
    c=lambda lib, x, k: lib("simple_conv", len(x), x, k, out=np.empty((len(x) - 2, len(x) - 2))),
)
def simple_conv(x, weights):
    h, w = x.shape
    out = np.zeros((h - 2, w - 2))
    for i in range(h - 2):
        for j in range(w - 2):
            s = 0.0
            for a in range(3):
                for b in range(3):
                    s += weights[a, b] * x[i + a, j + b]
            out[i, j] = s
    return out


@loops(
    lambda n: (_grid(n, n), _grid(n, n), 0.1, 10),
    40,
    101,
    written=(0, 1),
    parakeet=True,
    c=lambda lib, u, v, dt, steps: lib("diffuse", len(u), steps, dt, out=(u, v)),
)
def diffuse(u, new, dt, steps):
    m, n = u.shape
    for _ in range(steps):
        for i in range(1, m - 1):
            for j in range(1, n - 1):
                new[i, j] = u[i, j] + dt * (
                    u[i + 1, j] - 2.0 * u[i, j] + u[i - 1, j] + u[i, j + 1] - 2.0 * u[i, j] + u[i, j - 1]
                )
        for i in range(1, m - 1):
            for j in range(1, n - 1):
                u[i, j] = new[i, j] + dt * (
                    new[i + 1, j] - 2.0 * new[i, j] + new[i - 1, j] + new[i, j + 1] - 2.0 * new[i, j] + new[i, j - 1]
                )


def fdtd_parallel(steps, ex, ey, hz):
    m, n = hz.shape
    for t in range(steps):
        for j in range(n):
            ey[0, j] = t
        for i in prange(1, m):
            for j in range(n):
                ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
        for i in prange(m):
            for j in range(1, n):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in prange(m - 1):
            for j in range(n - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


@loops(
    lambda n: (10, *(rng(s).random((n, n)) for s in range(3))),
    60,
    400,
    written=(1, 2, 3),
    own=fdtd_parallel,
    parallel=fdtd_parallel,
    parakeet=True,
    c=lambda lib, steps, ex, ey, hz: lib("fdtd", len(ex), steps, out=(ex, ey, hz)),
)
def fdtd(steps, ex, ey, hz):
    for t in range(steps):
        ey[0, :] = t
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def growcut_parallel(image, state, radius):
    h, w = image.shape
    new = np.empty_like(state)
    changes = 0
    for i in prange(h):
        for j in range(w):
            label, strength = state[i, j, 0], state[i, j, 1]
            moved = 0
            for a in range(max(0, i - radius), min(h, i + radius + 1)):
                for b in range(max(0, j - radius), min(w, j + radius + 1)):
                    if a == i and b == j:
                        continue
                    attack = (1.0 - abs(image[a, b] - image[i, j])) * state[a, b, 1]
                    if attack > strength:
                        label, strength = state[a, b, 0], attack
                        moved = 1
            new[i, j, 0] = label
            new[i, j, 1] = strength
            changes += moved
    return new, changes


@loops(
    lambda n: (_grid(n, n), np.stack([rng(1).integers(0, 2, (n, n)), rng(2).random((n, n))], 2), 5),
    16,
    50,
    parallel=growcut_parallel,
    parakeet=True,
    c=lambda lib, x, s, r: lib("growcut", len(x), r, x, s, out=(np.empty_like(s), np.empty(1, np.int64))),
)
def growcut(image, state, radius):
    h, w = image.shape
    new = np.empty_like(state)
    changes = 0
    for i in range(h):
        for j in range(w):
            label, strength = state[i, j, 0], state[i, j, 1]
            moved = 0
            for a in range(max(0, i - radius), min(h, i + radius + 1)):
                for b in range(max(0, j - radius), min(w, j + radius + 1)):
                    if a == i and b == j:
                        continue
                    attack = (1.0 - abs(image[a, b] - image[i, j])) * state[a, b, 1]
                    if attack > strength:
                        label, strength = state[a, b, 0], attack
                        moved = 1
            new[i, j, 0] = label
            new[i, j, 1] = strength
            changes += moved
    return new, changes


def dilation_parallel(x, k):
    h, w = x.shape
    out = np.empty_like(x)
    for i in prange(h):
        for j in range(w):
            best = x[i, j]
            for a in range(max(0, i - k // 2), min(h, i + k // 2 + 1)):
                for b in range(max(0, j - k // 2), min(w, j + k // 2 + 1)):
                    if x[a, b] > best:
                        best = x[a, b]
            out[i, j] = best
    return out


@loops(
    lambda n: (rng().integers(0, 256, (n, n)).astype(np.uint8), 7),
    30,
    150,
    parallel=dilation_parallel,
    parakeet=True,
    c=lambda lib, x, k: lib("dilation", len(x), k, x, out=np.empty_like(x)),
)
def dilation(x, k):
    h, w = x.shape
    out = np.empty_like(x)
    for i in range(h):
        for j in range(w):
            best = x[i, j]
            for a in range(max(0, i - k // 2), min(h, i + k // 2 + 1)):
                for b in range(max(0, j - k // 2), min(w, j + k // 2 + 1)):
                    if x[a, b] > best:
                        best = x[a, b]
            out[i, j] = best
    return out


@loops(
    lambda n: (rng().integers(0, 256, (n, n)).astype(np.uint8), 7),
    60,
    400,
    parakeet=True,
    c=lambda lib, x, k: lib("dilation_separable", len(x), k, x, out=np.empty_like(x)),
)
def dilation_separable(x, k):
    h, w = x.shape
    rows = np.empty_like(x)
    out = np.empty_like(x)
    for i in range(h):
        for j in range(w):
            best = x[i, j]
            for b in range(max(0, j - k // 2), min(w, j + k // 2 + 1)):
                best = max(best, x[i, b])
            rows[i, j] = best
    for i in range(h):
        for j in range(w):
            best = rows[i, j]
            for a in range(max(0, i - k // 2), min(h, i + k // 2 + 1)):
                best = max(best, rows[a, j])
            out[i, j] = best
    return out
