"""Parakeet's list in loops: products, distances, means, recurrences, rotations."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import loops, rng


def _two(n, dtype=np.float64):
    return rng().random((n, n)).astype(dtype), rng(1).random((n, n)).astype(dtype)


def matmult_parallel(X, Y):
    m, n = X.shape
    p = Y.shape[1]
    out = np.zeros((m, p), dtype=X.dtype)
    for i in prange(m):
        for k in range(n):
            for j in range(p):
                out[i, j] += X[i, k] * Y[k, j]
    return out


@loops(
    lambda n: _two(n, np.float32),
    40,
    200,
    parallel=matmult_parallel,
    rtol=1e-5,
    parakeet=True,
    c=lambda lib, x, y: lib("matmult", len(x), x, y, out=np.empty_like(x)),
)
def matmult(X, Y):
    m, n = X.shape
    p = Y.shape[1]
    out = np.zeros((m, p), dtype=X.dtype)
    for i in range(m):
        for j in range(p):
            for k in range(n):
                out[i, j] += X[i, k] * Y[k, j]
    return out


def matmult_tropical_parallel(X, Y):
    m, n = X.shape
    p = Y.shape[1]
    out = np.full((m, p), np.inf)
    for i in prange(m):
        for k in range(n):
            for j in range(p):
                out[i, j] = min(out[i, j], X[i, k] + Y[k, j])
    return out


@loops(
    _two,
    40,
    180,
    parallel=matmult_tropical_parallel,
    parakeet=True,
    c=lambda lib, x, y: lib("matmult_tropical", len(x), x, y, out=np.empty_like(x)),
)
def matmult_tropical(X, Y):
    m, n = X.shape
    p = Y.shape[1]
    out = np.zeros((m, p))
    for i in range(m):
        for j in range(p):
            best = np.inf
            for k in range(n):
                best = min(best, X[i, k] + Y[k, j])
            out[i, j] = best
    return out


def kmeans_parallel(X, centres, turns):
    n, d = X.shape
    k = len(centres)
    labels = np.zeros(n, dtype=np.int64)
    for _ in range(turns):
        for i in prange(n):
            best, at = np.inf, 0
            for c in range(k):
                s = 0.0
                for j in range(d):
                    s += (X[i, j] - centres[c, j]) ** 2
                if s < best:
                    best, at = s, c
            labels[i] = at
        counts = np.zeros(k, dtype=np.int64)
        sums = np.zeros((k, d))
        for i in range(n):
            counts[labels[i]] += 1
            for j in range(d):
                sums[labels[i], j] += X[i, j]
        for c in range(k):
            if counts[c] > 0:
                for j in range(d):
                    centres[c, j] = sums[c, j] / counts[c]
    return labels


@loops(
    lambda n: (rng().random((n, 10)), rng(1).random((8, 10)), 3),
    200,
    5_000,
    written=(1,),
    parallel=kmeans_parallel,
    parakeet=True,
    c=lambda lib, x, c, turns: lib("kmeans", *x.shape, len(c), turns, x, out=(c, np.empty(len(x), np.int64))),
)
def kmeans(X, centres, turns):
    n, d = X.shape
    k = len(centres)
    labels = np.zeros(n, dtype=np.int64)
    for _ in range(turns):
        for i in range(n):
            best, at = np.inf, 0
            for c in range(k):
                s = 0.0
                for j in range(d):
                    s += (X[i, j] - centres[c, j]) ** 2
                if s < best:
                    best, at = s, c
            labels[i] = at
        counts = np.zeros(k, dtype=np.int64)
        sums = np.zeros((k, d))
        for i in range(n):
            counts[labels[i]] += 1
            for j in range(d):
                sums[labels[i], j] += X[i, j]
        for c in range(k):
            if counts[c] > 0:
                for j in range(d):
                    centres[c, j] = sums[c, j] / counts[c]
    return labels


def allpairs_parallel(X, Y):
    out = np.zeros((len(X), len(Y)))
    for i in prange(len(X)):
        for j in range(len(Y)):
            s = 0.0
            for k in range(X.shape[1]):
                d = X[i, k] - Y[j, k]
                s += d * d
            out[i, j] = np.sqrt(s)
    return out


@loops(
    lambda n: (rng().random((n, 10)), rng(1).random((50, 10))),
    60,
    2_000,
    parallel=allpairs_parallel,
    parakeet=True,
    c=lambda lib, x, y: lib("allpairs_distances", len(x), len(y), x.shape[1], x, y, out=np.empty((len(x), len(y)))),
)
def allpairs_distances(X, Y):
    out = np.zeros((len(X), len(Y)))
    for i in range(len(X)):
        for j in range(len(Y)):
            s = 0.0
            for k in range(X.shape[1]):
                d = X[i, k] - Y[j, k]
                s += d * d
            out[i, j] = np.sqrt(s)
    return out


def arc_distance_parallel(a, b):
    out = np.empty((len(a), len(b)))
    for i in prange(len(a)):
        for j in range(len(b)):
            t = np.sin((a[i, 0] - b[j, 0]) / 2.0) ** 2
            p = np.cos(a[i, 0]) * np.cos(b[j, 0]) * np.sin((a[i, 1] - b[j, 1]) / 2.0) ** 2
            out[i, j] = 2.0 * np.arctan2(np.sqrt(t + p), np.sqrt(1.0 - (t + p)))
    return out


@loops(
    lambda n: (rng().random((n, 2)), rng(1).random((n, 2))),
    60,
    400,
    parallel=arc_distance_parallel,
    parakeet=True,
    c=lambda lib, a, b: lib("arc_distance", len(a), a, b, out=np.empty((len(a), len(b)))),
)
def arc_distance(a, b):
    out = np.empty((len(a), len(b)))
    for i in range(len(a)):
        for j in range(len(b)):
            t = np.sin((a[i, 0] - b[j, 0]) / 2.0) ** 2
            p = np.cos(a[i, 0]) * np.cos(b[j, 0]) * np.sin((a[i, 1] - b[j, 1]) / 2.0) ** 2
            out[i, j] = 2.0 * np.arctan2(np.sqrt(t + p), np.sqrt(1.0 - (t + p)))
    return out


def rosenbrock_parallel(x):
    n = len(x)
    out = np.empty(n)
    for i in prange(1, n - 1):
        out[i] = 200.0 * (x[i] - x[i - 1] ** 2) - 400.0 * (x[i + 1] - x[i] ** 2) * x[i] - 2.0 * (1.0 - x[i])
    out[0] = -400.0 * x[0] * (x[1] - x[0] ** 2) - 2.0 * (1.0 - x[0])
    out[n - 1] = 200.0 * (x[n - 1] - x[n - 2] ** 2)
    return out


@loops(
    lambda n: (rng().random(n),),
    5_000,
    1_000_000,
    parallel=rosenbrock_parallel,
    parakeet=True,
    c=lambda lib, x: lib("rosenbrock", len(x), x, out=np.empty_like(x)),
)
def rosenbrock(x):
    n = len(x)
    out = np.empty(n)
    for i in range(1, n - 1):
        out[i] = 200.0 * (x[i] - x[i - 1] ** 2) - 400.0 * (x[i + 1] - x[i] ** 2) * x[i] - 2.0 * (1.0 - x[i])
    out[0] = -400.0 * x[0] * (x[1] - x[0] ** 2) - 2.0 * (1.0 - x[0])
    out[n - 1] = 200.0 * (x[n - 1] - x[n - 2] ** 2)
    return out


@loops(
    lambda n: (rng().random(n), rng(1).random(n)),
    5_000,
    1_000_000,
    parakeet=True,
    c=lambda lib, x, y: lib("simple_regression", len(x), x, y, out=np.empty(2)),
)
def simple_regression(x, y):
    n = len(x)
    sx = sy = 0.0
    for i in range(n):
        sx += x[i]
        sy += y[i]
    mx, my = sx / n, sy / n
    cov = var = 0.0
    for i in range(n):
        cov += (x[i] - mx) * (y[i] - my)
        var += (x[i] - mx) ** 2
    slope = cov / var
    return np.array([slope, my - slope * mx])


@loops(
    lambda n: (rng().random(n), 0.3),
    5_000,
    500_000,
    parakeet=True,
    c=lambda lib, x, alpha: lib("smoothing", len(x), alpha, x, out=np.empty_like(x)),
)
def smoothing(x, alpha):
    out = np.empty_like(x)
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = (1.0 - alpha) * out[i - 1] + alpha * x[i]
    return out


@loops(
    lambda n: (rng().random((200, 3)), rng(1).random((n, 3)), rng(2).random(n)),
    30,
    400,
    parakeet=True,
    c=lambda lib, p, q, w: lib("summation", len(p), len(w), p, q, w, out=np.empty(len(p))),
)
def summation(points, charges, weights):
    out = np.zeros(len(points))
    for i in range(len(points)):
        for j in range(len(weights)):
            d = 0.0
            for k in range(3):
                d += (points[i, k] - charges[j, k]) ** 2
            out[i] += weights[j] / np.sqrt(d + 1e-6)
    return out


def periodic_distances_parallel(x, y, z, side):
    n = len(x)
    out = np.zeros((n, n))
    half = side / 2.0
    for i in prange(n):
        for j in range(n):
            s = 0.0
            for axis in (x, y, z):
                d = abs(axis[i] - axis[j])
                if d > half:
                    d = side - d
                s += d * d
            out[i, j] = np.sqrt(s)
    return out


@loops(
    lambda n: (*(rng(s).random(n) for s in range(3)), 1.0),
    40,
    400,
    parallel=periodic_distances_parallel,
    parakeet=True,
    c=lambda lib, x, y, z, side: lib("periodic_distances", len(x), side, x, y, z, out=np.empty((len(x), len(x)))),
)
def periodic_distances(x, y, z, side):
    n = len(x)
    out = np.zeros((n, n))
    half = side / 2.0
    for i in range(n):
        for j in range(n):
            dx, dy, dz = abs(x[i] - x[j]), abs(y[i] - y[j]), abs(z[i] - z[j])
            if dx > half:
                dx = side - dx
            if dy > half:
                dy = side - dy
            if dz > half:
                dz = side - dz
            out[i, j] = np.sqrt(dx * dx + dy * dy + dz * dz)
    return out


@loops(
    lambda n: (rng().random((n, n, n, n)), rng(1).random((n, n))),
    4,
    6,
    parakeet=True,
    c=lambda lib, t, g: lib("tensor_rotation", len(g), t, g, out=np.empty_like(t)),
)
def tensor_rotation(T, g):
    n = T.shape[0]
    out = np.zeros((n, n, n, n))
    for i in range(n):
        for j in range(n):
            for k in range(n):
                for l in range(n):
                    for a in range(n):
                        for b in range(n):
                            for c in range(n):
                                for d in range(n):
                                    out[i, j, k, l] += g[i, a] * g[j, b] * g[k, c] * g[l, d] * T[a, b, c, d]
    return out


def collatz_parallel(n):
    out = np.empty(n, dtype=np.int64)
    for i in prange(n):
        x = i + 1
        count = 0
        while x > 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            count += 1
        out[i] = count
    return out


@loops(
    lambda n: (n,),
    500,
    30_000,
    parallel=collatz_parallel,
    parakeet=True,
    c=lambda lib, n: lib("collatz", n, out=np.empty(n, np.int64)),
)
def collatz(n):
    out = np.empty(n, dtype=np.int64)
    for i in range(n):
        x = i + 1
        count = 0
        while x > 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            count += 1
        out[i] = count
    return out
