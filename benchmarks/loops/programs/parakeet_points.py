"""Parakeet's list in loops: local maxima, chains of rotations, particles splatted on a grid, a short vector."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import loops, rng


def local_maxima_parallel(x):
    a, b, c, d = x.shape
    out = np.zeros(x.shape, dtype=np.bool_)
    for i in prange(a):
        for j in range(b):
            for k in range(c):
                for l in range(d):
                    v = x[i, j, k, l]
                    most = x[(i + 1) % a, j, k, l] <= v and x[i - 1, j, k, l] <= v
                    most = most and x[i, (j + 1) % b, k, l] <= v and x[i, j - 1, k, l] <= v
                    most = most and x[i, j, (k + 1) % c, l] <= v and x[i, j, k - 1, l] <= v
                    most = most and x[i, j, k, (l + 1) % d] <= v and x[i, j, k, l - 1] <= v
                    out[i, j, k, l] = most
    return out


@loops(
    lambda n: (rng().random((n, n, 2 * n // 3, n // 2)),),
    10,
    24,
    parallel=local_maxima_parallel,
    parakeet=True,
    c=lambda lib, x: lib("local_maxima", *x.shape, x, out=np.empty(x.shape, np.bool_)),
)
def local_maxima(x):
    a, b, c, d = x.shape
    out = np.zeros(x.shape, dtype=np.bool_)
    for i in range(a):
        for j in range(b):
            for k in range(c):
                for l in range(d):
                    v = x[i, j, k, l]
                    most = x[(i + 1) % a, j, k, l] <= v and x[i - 1, j, k, l] <= v
                    most = most and x[i, (j + 1) % b, k, l] <= v and x[i, j - 1, k, l] <= v
                    most = most and x[i, j, (k + 1) % c, l] <= v and x[i, j, k - 1, l] <= v
                    most = most and x[i, j, k, (l + 1) % d] <= v and x[i, j, k, l - 1] <= v
                    out[i, j, k, l] = most
    return out


def pulse_propagation_loops(angles, offsets):
    out = np.empty((len(offsets), 3))
    for o in prange(len(offsets)):
        x, y, z = 0.0, 0.0, 1.0
        co, so = np.cos(offsets[o]), np.sin(offsets[o])
        for k in range(len(angles)):
            c, s = np.cos(angles[k]), np.sin(angles[k])
            y, z = c * y - s * z, s * y + c * z
            x, y = co * x - so * y, so * x + co * y
        out[o, 0] = x
        out[o, 1] = y
        out[o, 2] = z
    return out


@loops(
    lambda n: (rng().random(n), np.linspace(-0.5, 0.5, 20)),
    60,
    1_000,
    own=pulse_propagation_loops,
    parallel=pulse_propagation_loops,
    parakeet=True,
    c=lambda lib, a, o: lib("pulse_propagation", len(o), len(a), a, o, out=np.empty((len(o), 3))),
)
def pulse_propagation(angles, offsets):
    out = np.empty((len(offsets), 3))
    for o in range(len(offsets)):
        m = np.array([0.0, 0.0, 1.0])
        co, so = np.cos(offsets[o]), np.sin(offsets[o])
        free = np.array([[co, -so, 0.0], [so, co, 0.0], [0.0, 0.0, 1.0]])
        for k in range(len(angles)):
            c, s = np.cos(angles[k]), np.sin(angles[k])
            pulse = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
            m = free @ (pulse @ m)
        out[o] = m
    return out


@loops(
    lambda n: (rng().random((n, 2)), 0.02 + 0.06 * rng(1).random(n), rng(2).random(n), 64),
    50,
    2_000,
    parakeet=True,
    c=lambda lib, p, h, m, s: lib("splat_particles", len(h), s, p, h, m, out=np.empty((s, s))),
)
def splat_particles(places, radii, masses, side):
    image = np.zeros((side, side))
    for p in range(len(radii)):
        h = radii[p]
        low_i = max(0, int((places[p, 0] - h) * side))
        high_i = min(side - 1, int((places[p, 0] + h) * side))
        low_j = max(0, int((places[p, 1] - h) * side))
        high_j = min(side - 1, int((places[p, 1] + h) * side))
        for i in range(low_i, high_i + 1):
            for j in range(low_j, high_j + 1):
                dx = (i + 0.5) / side - places[p, 0]
                dy = (j + 0.5) / side - places[p, 1]
                q = (dx * dx + dy * dy) / (h * h)
                if q < 1.0:
                    image[i, j] += masses[p] * (1.0 - q) * (1.0 - q)
    return image


@loops(
    lambda n: (rng().random(n), rng(1).random(n), rng(2).random(n)),
    1_000,
    10_000,
    parakeet=True,
    c=lambda lib, x, y, z: lib("simple_average", len(x), x, y, z, out=np.empty_like(x)),
)
def simple_average(x, y, z):
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = (x[i] + y[i] + z[i]) / 3.0
    return out


@loops(
    lambda n: (rng().random(n) + 0.1, 1.3, 2.0),
    1_000,
    10_000,
    parakeet=True,
    c=lambda lib, x, mu, lam: lib("wald", len(x), mu, lam, x, out=np.empty_like(x)),
)
def wald(x, mu, lam):
    out = np.empty(len(x))
    for i in range(len(x)):
        d = x[i] - mu
        out[i] = np.sqrt(lam / (2.0 * np.pi * x[i] ** 3)) * np.exp(-lam * d * d / (2.0 * mu * mu * x[i]))
    return out


@loops(
    lambda n: (rng().integers(0, 100, n),),
    5_000,
    1_000_000,
    parakeet=True,
    c=lambda lib, x: lib("sum_loop", len(x), x, out=np.empty(1, np.int64)),
)
def sum_loop(x):
    total = 0
    for v in x:
        total += v
    return total
