"""Particles onto a grid: sums by cell."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.kernels.registry import ND, Inputs, program, uniform

GRID = 512


def cloud(n: int) -> Inputs:
    return uniform(n), uniform(n, seed=1), uniform(n, seed=2)


def numba_splat(numba: Any, jit: Any) -> Any:
    @jit
    def f(x: ND, y: ND, weight: ND) -> ND:
        threads = numba.get_num_threads()
        grids = numpy.zeros((threads, GRID, GRID))
        for part in numba.prange(threads):
            for i in range(x.size * part // threads, x.size * (part + 1) // threads):
                grids[part, int(y[i] * GRID), int(x[i] * GRID)] += weight[i]
        return grids.sum(0)

    return f


def jax_splat(jax: Any, np: Any) -> Any:
    def f(x: Any, y: Any, weight: Any) -> Any:
        return np.zeros((GRID, GRID)).at[(y * GRID).astype(int), (x * GRID).astype(int)].add(weight)

    return f


@program(
    cloud,
    1_000_000,
    numba=numba_splat,
    jax=jax_splat,
    c=lambda lib, x, y, w: lib("splat", x.size, GRID, x, y, w, lib.empty((GRID, GRID)), out=lib.empty((GRID, GRID))),
)
def sph_render(np: Any, x: Any, y: Any, weight: Any) -> Any:
    cell = (y * GRID).astype(np.int64) * GRID + (x * GRID).astype(np.int64)
    return np.bincount(cell, weights=weight, minlength=GRID * GRID).reshape(GRID, GRID)
