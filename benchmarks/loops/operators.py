"""Parakeet's list with operators: the same work as functions of numbers, rows and tiles. Out: `FORMS`, by program.

What a program's loops do around an element is left to `tw.vectorize`, `outer_map`, `allpairs`, `reduce`, `scan`,
`map_tiles` and `join_update`; what they do inside is a compiled function. Arguments are Tilewise's arrays.
"""

from __future__ import annotations

import math

import numpy as np

import tilewise as tw

FORMS = {}


def form(f):
    """Enter a function under the name of the program that it is a form of."""
    FORMS[f.__name__] = f
    return f


def dot(p, q):
    s = p[0] * q[0]
    for k in range(1, len(p)):
        s += p[k] * q[k]
    return s


@form
def matmult(X, Y):
    return tw.allpairs(dot, X, Y.T)


def least_sum(p, q):
    best = np.inf
    for k in range(len(p)):
        best = min(best, p[k] + q[k])
    return best


@form
def matmult_tropical(X, Y):
    return tw.allpairs(least_sum, X, Y.T)


@form
def kmeans(X, centres, turns):
    for _ in range(turns):
        C = np.asarray(centres)
        k, d = C.shape

        def nearest(tile):
            labels = np.empty(len(tile), np.int64)
            for i in range(len(tile)):
                best, at = np.inf, 0
                for c in range(k):  # noqa: B023
                    s = 0.0
                    for j in range(d):  # noqa: B023
                        s += (tile[i, j] - C[c, j]) ** 2  # noqa: B023
                    if s < best:
                        best, at = s, c
                labels[i] = at
            return labels

        def added(tile, labels):
            sums = np.zeros((k, d + 1))  # noqa: B023
            for i in range(len(tile)):
                for j in range(d):  # noqa: B023
                    sums[labels[i], j] += tile[i, j]
                sums[labels[i], d] += 1  # noqa: B023
            return sums

        labels = tw.map_tiles(nearest, X, dtype=np.int64, shape=(len(X),))
        sums = np.asarray(tw.join_update(added, (X, labels), (0, 0), (k, d + 1)))
        centres[:] = np.where(sums[:, -1:] > 0, sums[:, :-1] / np.maximum(sums[:, -1:], 1), C)
    return labels


def distance(p, q):
    s = 0.0
    for k in range(len(p)):
        d = p[k] - q[k]
        s += d * d
    return np.sqrt(s)


@form
def allpairs_distances(X, Y):
    return tw.allpairs(distance, X, Y)


def arc(p, q):
    t = np.sin((p[0] - q[0]) / 2.0) ** 2
    c = np.cos(p[0]) * np.cos(q[0]) * np.sin((p[1] - q[1]) / 2.0) ** 2
    return 2.0 * np.arctan2(np.sqrt(t + c), np.sqrt(1.0 - (t + c)))


@form
def arc_distance(a, b):
    return tw.allpairs(arc, a, b)


@form
def rosenbrock(x):
    def inner(before, here, after):
        return 200.0 * (here - before**2) - 400.0 * (after - here**2) * here - 2.0 * (1.0 - here)

    out = tw.empty(len(x))
    out[1:-1] = tw.vectorize(inner)(x[:-2], x[1:-1], x[2:])
    out[0] = -400.0 * x[0] * (x[1] - x[0] ** 2) - 2.0 * (1.0 - x[0])
    out[-1] = 200.0 * (x[-1] - x[-2] ** 2)
    return out


@form
def simple_regression(x, y):
    def both(p, q):
        return p[0] + q[0], p[1] + q[1]

    sx, sy = tw.reduce(lambda u, v: (u, v), x, y, combine=both)
    mx, my = float(sx) / len(x), float(sy) / len(x)
    cov, var = tw.reduce(lambda u, v: ((u - mx) * (v - my), (u - mx) ** 2), x, y, combine=both)
    slope = float(cov) / float(var)
    return np.array([slope, my - slope * mx])


@form
def smoothing(x, alpha):
    return tw.scan(lambda s, v: (1.0 - alpha) * s + alpha * v, x, init=float(x[0]))


@form
def summation(points, charges, weights):
    Q, W = np.asarray(charges), np.asarray(weights)

    def potential(p0, p1, p2):
        total = 0.0
        for j in range(len(W)):
            d = (p0 - Q[j, 0]) ** 2 + (p1 - Q[j, 1]) ** 2 + (p2 - Q[j, 2]) ** 2
            total += W[j] / np.sqrt(d + 1e-6)
        return total

    return tw.vectorize(potential, otypes=[float])(points[:, 0], points[:, 1], points[:, 2])


@form
def periodic_distances(x, y, z, side):
    half = side / 2.0

    def shortest(p, q):
        s = 0.0
        for k in range(3):
            d = abs(p[k] - q[k])
            if d > half:
                d = side - d
            s += d * d
        return np.sqrt(s)

    return tw.allpairs(shortest, tw.stack([x, y, z], axis=1))


@form
def collatz(n):
    def steps(x):
        count = 0
        while x > 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            count += 1
        return count

    return tw.vectorize(steps)(tw.arange(1, n + 1))


@form
def julia(n, real, imag, cutoff, most):
    def escape(i, j):
        x, y = -1.5 + 3.0 * j / n, -1.5 + 3.0 * i / n
        k = 0
        while k < most and x * x + y * y < cutoff:
            x, y = x * x - y * y + real, 2.0 * x * y + imag
            k += 1
        return k

    return tw.outer_map(escape, tw.arange(n), tw.arange(n))


@form
def convolution_clamped(image, weights):
    G, K = np.asarray(image), np.asarray(weights)
    h, w = G.shape
    a, b = K.shape

    def around(i, j):
        s = 0.0
        for di in range(a):
            for dj in range(b):
                y = min(max(i + di - a // 2, 0), h - 1)
                x = min(max(j + dj - b // 2, 0), w - 1)
                s += K[di, dj] * G[y, x]
        return s

    return tw.outer_map(around, tw.arange(h), tw.arange(w))


@form
def simple_conv(x, weights):
    G, K = np.asarray(x), np.asarray(weights)

    def around(i, j):
        s = 0.0
        for a in range(3):
            for b in range(3):
                s += K[a, b] * G[i + a, j + b]
        return s

    return tw.outer_map(around, tw.arange(len(G) - 2), tw.arange(G.shape[1] - 2))


@form
def growcut(image, state, radius):
    G, S = np.asarray(image), np.asarray(state)
    h, w = G.shape

    def attacked(i, j):
        label, strength = S[i, j, 0], S[i, j, 1]
        moved = 0
        for a in range(max(0, i - radius), min(h, i + radius + 1)):
            for b in range(max(0, j - radius), min(w, j + radius + 1)):
                if a == i and b == j:
                    continue
                attack = (1.0 - abs(G[a, b] - G[i, j])) * S[a, b, 1]
                if attack > strength:
                    label, strength = S[a, b, 0], attack
                    moved = 1
        return label, strength, moved

    labels, strengths, moved = tw.vectorize(attacked)(tw.arange(h)[:, None], tw.arange(w)[None, :])
    return tw.stack([labels, strengths], axis=2), int(moved.sum())


@form
def local_maxima(x):
    X = np.asarray(x)
    a, b, c, d = X.shape

    def most(i, j, k, l):
        v = X[i, j, k, l]
        most = X[(i + 1) % a, j, k, l] <= v and X[i - 1, j, k, l] <= v
        most = most and X[i, (j + 1) % b, k, l] <= v and X[i, j - 1, k, l] <= v
        most = most and X[i, j, (k + 1) % c, l] <= v and X[i, j, k - 1, l] <= v
        most = most and X[i, j, k, (l + 1) % d] <= v and X[i, j, k, l - 1] <= v
        return most

    at = [tw.arange(n).reshape([-1 if m == axis else 1 for m in range(4)]) for axis, n in enumerate(X.shape)]
    return tw.vectorize(most, otypes=[bool])(*at)


@form
def pulse_propagation(angles, offsets):
    turns = np.asarray(angles)

    def spin(offset):
        x, y, z = 0.0, 0.0, 1.0
        co, so = math.cos(offset), math.sin(offset)
        for k in range(len(turns)):
            c, s = math.cos(turns[k]), math.sin(turns[k])
            y, z = c * y - s * z, s * y + c * z
            x, y = co * x - so * y, so * x + co * y
        return x, y, z

    return tw.stack(list(tw.vectorize(spin)(offsets)), axis=1)


@form
def splat_particles(places, radii, masses, side):
    def splat(places, radii, masses):
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

    return tw.join_update(splat, (places, radii, masses), (0, 0, 0), (side, side))


@form
def simple_average(x, y, z):
    return tw.vectorize(lambda u, v, w: (u + v + w) / 3.0)(x, y, z)


@form
def wald(x, mu, lam):
    def density(v):
        d = v - mu
        return np.sqrt(lam / (2.0 * np.pi * v**3)) * np.exp(-lam * d * d / (2.0 * mu * mu * v))

    return tw.vectorize(density)(x)


@form
def sum_loop(x):
    return tw.fold(lambda p, q: p + q, x)
