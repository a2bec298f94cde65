"""All pairs: distances, forces, potentials, and the product of min and +; broadcasts that should not be stored."""

from __future__ import annotations

import math
from typing import Any

import numpy

from benchmarks.kernels.registry import ND, Inputs, program, side, uniform

DIMENSIONS = 10
SOFTENING = 1e-3


def clouds(n: int) -> Inputs:
    s = side(n)
    return uniform(s, DIMENSIONS), uniform(s, DIMENSIONS, seed=1)


def numba_distances(numba: Any, jit: Any) -> Any:
    @jit
    def f(a: ND, b: ND) -> ND:
        out = numpy.empty((a.shape[0], b.shape[0]))
        for i in numba.prange(a.shape[0]):
            for j in range(b.shape[0]):
                total = 0.0
                for k in range(a.shape[1]):
                    total += (a[i, k] - b[j, k]) ** 2
                out[i, j] = math.sqrt(total)
        return out

    return f


def c_distances(root: int) -> Any:
    def maker(lib: Any, a: ND, b: ND) -> Any:
        return lib("distances", len(a), len(b), a.shape[1], root, a, b, out=lib.empty((len(a), len(b))))

    return maker


@program(clouds, 4_000_000, numba=numba_distances, c=c_distances(1))
def pairwise_distances(np: Any, a: Any, b: Any) -> Any:
    return np.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(-1))


FEW = 50


def few(n: int) -> Inputs:
    return uniform(max(n // FEW, 4), DIMENSIONS), uniform(FEW, DIMENSIONS, seed=1)


def numba_allpairs(numba: Any, jit: Any) -> Any:
    @jit
    def f(a: ND, b: ND) -> ND:
        out = numpy.empty((a.shape[0], b.shape[0]))
        for i in numba.prange(a.shape[0]):
            for j in range(b.shape[0]):
                total = 0.0
                for k in range(a.shape[1]):
                    total += (a[i, k] - b[j, k]) ** 2
                out[i, j] = total
        return out

    return f


@program(few, 500_000, numba=numba_allpairs, c=c_distances(0))
def allpairs(np: Any, a: Any, b: Any) -> Any:
    return ((a[:, None, :] - b) ** 2).sum(2)


# --- n-body -----------------------------------------------------------------------------------------------


def bodies(n: int) -> Inputs:
    s = side(n)
    return uniform(s, 3), uniform(s, seed=1) + 0.5


def numba_nbody(numba: Any, jit: Any) -> Any:
    @jit
    def f(pos: ND, mass: ND) -> ND:
        n = mass.size
        acc = numpy.empty_like(pos)
        for i in numba.prange(n):
            ax = ay = az = 0.0
            for j in range(n):
                dx, dy, dz = pos[j, 0] - pos[i, 0], pos[j, 1] - pos[i, 1], pos[j, 2] - pos[i, 2]
                r2 = dx * dx + dy * dy + dz * dz + SOFTENING
                weight = mass[j] / (r2 * math.sqrt(r2))
                ax += weight * dx
                ay += weight * dy
                az += weight * dz
            acc[i, 0], acc[i, 1], acc[i, 2] = ax, ay, az
        return acc

    return f


@program(
    bodies,
    4_000_000,
    numba=numba_nbody,
    c=lambda lib, pos, mass: lib(
        "nbody", len(mass), SOFTENING, numpy.ascontiguousarray(pos.T), mass, out=numpy.empty_like(pos)
    ),
)
def nbody(np: Any, pos: Any, mass: Any) -> Any:
    d = pos[None, :, :] - pos[:, None, :]
    r2 = (d * d).sum(-1) + SOFTENING
    return (d * (mass / (r2 * np.sqrt(r2)))[:, :, None]).sum(1)


# --- min-plus products ------------------------------------------------------------------------------------


def weights(n: int) -> Inputs:
    s = side(n, 3)
    return uniform(s, s), uniform(s, s, seed=1)


def numba_tropical(numba: Any, jit: Any) -> Any:
    @jit
    def f(a: ND, b: ND) -> ND:
        out = numpy.full((a.shape[0], b.shape[1]), numpy.inf)
        for i in numba.prange(a.shape[0]):
            for k in range(a.shape[1]):
                for j in range(b.shape[1]):
                    out[i, j] = min(out[i, j], a[i, k] + b[k, j])
        return out

    return f


@program(
    weights,
    125_000_000,
    numba=numba_tropical,
    c=lambda lib, a, b: lib("tropical", len(a), a, b, out=lib.empty(a.shape)),
)
def matmult_tropical(np: Any, a: Any, b: Any) -> Any:
    return (a[:, :, None] + b[None, :, :]).min(1)


# --- potentials and distances of particles ----------------------------------------------------------------


def charges(n: int) -> Inputs:
    points = max(side(n // 2), 4)
    return uniform(points, 3), uniform(2 * points, 3, seed=1) + 1.5, uniform(2 * points, seed=2)


def numba_potential(numba: Any, jit: Any) -> Any:
    @jit
    def f(p: ND, q: ND, w: ND) -> ND:
        out = numpy.empty(p.shape[0])
        for i in numba.prange(p.shape[0]):
            total = 0.0
            for j in range(q.shape[0]):
                r2 = (p[i, 0] - q[j, 0]) ** 2 + (p[i, 1] - q[j, 1]) ** 2 + (p[i, 2] - q[j, 2]) ** 2
                total += w[j] / math.sqrt(r2)
            out[i] = total
        return out

    return f


@program(
    charges,
    80_000,
    numba=numba_potential,
    c=lambda lib, p, q, w: lib("potential", len(p), len(q), p, numpy.ascontiguousarray(q.T), w, out=lib.empty(len(p))),
)
def summation(np: Any, p: Any, q: Any, w: Any) -> Any:
    return (w / np.sqrt(((p[:, None, :] - q) ** 2).sum(-1))).sum(1)


def numba_periodic(numba: Any, jit: Any) -> Any:
    @jit
    def f(x: ND, y: ND, z: ND) -> ND:
        out = numpy.empty((x.size, x.size))
        for i in numba.prange(x.size):
            for j in range(x.size):
                dx, dy, dz = abs(x[i] - x[j]), abs(y[i] - y[j]), abs(z[i] - z[j])
                dx, dy, dz = min(dx, 1 - dx), min(dy, 1 - dy), min(dz, 1 - dz)
                out[i, j] = math.sqrt(dx * dx + dy * dy + dz * dz)
        return out

    return f


def box(n: int) -> Inputs:
    return tuple(uniform(side(n), seed=k) for k in range(3))


@program(
    box,
    4_000_000,
    numba=numba_periodic,
    c=lambda lib, x, y, z: lib("periodic", x.size, x, y, z, out=lib.empty((x.size, x.size))),
)
def periodic_dist(np: Any, x: Any, y: Any, z: Any) -> Any:
    total = 0.0
    for a in (x, y, z):
        d = np.abs(a[:, None] - a)
        d = np.where(d > 0.5, 1 - d, d)
        total = total + d * d
    return np.sqrt(total)


def places(n: int) -> Inputs:
    s = side(n)
    return uniform(s) * 3, uniform(s, seed=1) * 6, uniform(s, seed=2) * 3, uniform(s, seed=3) * 6


def numba_arc(numba: Any, jit: Any) -> Any:
    @jit
    def f(t1: ND, p1: ND, t2: ND, p2: ND) -> ND:
        out = numpy.empty((t1.size, t2.size))
        for i in numba.prange(t1.size):
            for j in range(t2.size):
                h = math.sin((t2[j] - t1[i]) / 2) ** 2
                h += math.cos(t1[i]) * math.cos(t2[j]) * math.sin((p2[j] - p1[i]) / 2) ** 2
                h = abs(h)
                out[i, j] = 2 * math.atan2(math.sqrt(h), math.sqrt(abs(1 - h)))
        return out

    return f


@program(
    places,
    1_000_000,
    numba=numba_arc,
    c=lambda lib, t1, p1, t2, p2: lib("arc", t1.size, t1, p1, t2, p2, out=lib.empty((t1.size, t1.size))),
)
def arc_distance(np: Any, t1: Any, p1: Any, t2: Any, p2: Any) -> Any:
    t1, p1 = t1[:, None], p1[:, None]
    h = np.sin((t2 - t1) / 2) ** 2 + np.cos(t1) * np.cos(t2) * np.sin((p2 - p1) / 2) ** 2
    h = np.abs(h)
    return 2 * np.arctan2(np.sqrt(h), np.sqrt(np.abs(1 - h)))
