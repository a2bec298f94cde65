"""The programs of the comparison. In: a namespace, inputs in place. Out: results that stay where they are.

`keep` makes a value real where it is (`tw.evaluate`, Dask's `persist`); with NumPy it does nothing. Where Dask's users
would write it otherwise, `dask` is that text: small values come to the client (`fetch`), stencils go through
map_overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

ND = numpy.ndarray[Any, Any]
Keep = Callable[[Any], Any]
ITERATIONS, SWEEPS, RANK, CLUSTERS = 5, 10, 16, 16


@dataclass(frozen=True)
class Program:
    """`cut`: the inputs that are cut along their rows; the others are small, and everywhere."""

    source: Callable[..., Any]
    inputs: Callable[[float], tuple[ND, ...]]
    cut: int
    dask: Callable[..., Any]
    grid: bool = False  # Dask does best with chunks that are square
    least: float = 1.2  # goal: Dask's time over ours


def normal(*shape: int, seed: int = 0) -> ND:
    """Random numbers."""
    return numpy.random.default_rng(seed).normal(size=shape)


def kmeans(np: Any, keep: Keep, X: Any, C: Any) -> Any:
    for _ in range(ITERATIONS):
        near = ((X * X).sum(1)[:, None] - 2 * (X @ C.T) + (C * C).sum(1)).argmin(1)
        hot = (near[:, None] == np.arange(CLUSTERS)).astype(float)
        C = keep((hot.T @ X) / hot.sum(0)[:, None])
    return C


def dask_kmeans(da: Any, keep: Keep, fetch: Keep, X: Any, C: Any) -> Any:
    for _ in range(ITERATIONS):
        near = ((X * X).sum(1)[:, None] - 2 * (X @ C.T) + (C * C).sum(1)).argmin(1)
        hot = (near[:, None] == numpy.arange(CLUSTERS)).astype(float)
        C = fetch((hot.T @ X) / hot.sum(0)[:, None])
    return C


def logistic(np: Any, keep: Keep, X: Any, y: Any, w: Any) -> Any:
    for _ in range(ITERATIONS):
        w = keep(w - 1e-6 * (X.T @ (1 / (1 + np.exp(-(X @ w))) - y)))
    return w


def dask_logistic(da: Any, keep: Keep, fetch: Keep, X: Any, y: Any, w: Any) -> Any:
    for _ in range(ITERATIONS):
        w = w - 1e-6 * fetch(X.T @ (1 / (1 + da.exp(-(X @ w))) - y))
    return w


def als(np: Any, keep: Keep, R: Any, V: Any) -> Any:
    ridge = 0.1 * numpy.eye(RANK)
    for _ in range(ITERATIONS):
        U = keep(np.linalg.solve(V.T @ V + ridge, V.T @ R.T).T)
        V = keep(np.linalg.solve(U.T @ U + ridge, U.T @ R).T)
    return V


def dask_als(da: Any, keep: Keep, fetch: Keep, R: Any, V: Any) -> Any:
    ridge = 0.1 * numpy.eye(RANK)
    for _ in range(ITERATIONS):
        U = R @ (V @ numpy.linalg.inv(V.T @ V + ridge))
        gram, right = fetch((U.T @ U, R.T @ U))
        V = numpy.linalg.solve(gram + ridge, right.T).T
    return V


def pca(np: Any, keep: Keep, X: Any) -> Any:
    centred = X - X.mean(0)
    _, vectors = np.linalg.eigh(centred.T @ centred / len(X))
    return keep(abs(vectors[:, -3:]))


def dask_pca(da: Any, keep: Keep, fetch: Any, X: Any) -> Any:
    centred = X - X.mean(0)
    return abs(numpy.linalg.eigh(fetch(centred.T @ centred / len(X), again=False))[1][:, -3:])


def dask_product(da: Any, keep: Keep, fetch: Keep, A: Any, B: Any) -> Any:
    return keep(A @ B)


def product(np: Any, keep: Keep, A: Any, B: Any) -> Any:
    return keep(A @ B)


def stencil(np: Any, keep: Keep, u: Any) -> Any:
    u = u.copy()
    for _ in range(SWEEPS):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return keep(u)


def _sweep(u: ND, block_info: Any = None) -> ND:
    """One sweep on a chunk with a row of each neighbour."""
    out = u.copy()
    out[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return out


def dask_stencil(da: Any, keep: Keep, fetch: Keep, u: Any) -> Any:
    for _ in range(SWEEPS):
        u = u.map_overlap(_sweep, depth=(1, 0), boundary="none", dtype=float)
    return keep(u)


def sort(np: Any, keep: Keep, x: Any) -> Any:
    return keep(np.sort(x))


def dask_sort(da: Any, keep: Keep, fetch: Keep, x: Any) -> Any:
    import dask.dataframe as dd

    table = dd.from_dask_array(x, columns="x").to_frame()
    return keep(table.sort_values("x")["x"].to_dask_array())


PROGRAMS: dict[str, Program] = {
    "k-means": Program(kmeans, lambda s: (normal(int(150_000 * s), 20), normal(CLUSTERS, 20, seed=1)), 1, dask_kmeans),
    "logistic regression": Program(
        logistic,
        lambda s: (normal(int(300_000 * s), 20), (normal(int(300_000 * s)) > 0) * 1.0, numpy.zeros(20)),
        2,
        dask_logistic,
    ),
    "ALS": Program(als, lambda s: (abs(normal(int(4_000 * s), 1_000)), abs(normal(1_000, RANK, seed=1))), 1, dask_als),
    "PCA": Program(pca, lambda s: (normal(int(200_000 * s), 40) * numpy.arange(1, 41),), 1, dask_pca),
    "matrix product": Program(
        product, lambda s: (normal(1_200, 1_200), normal(1_200, 1_200, seed=1)), 2, dask_product, grid=True, least=1.0
    ),
    "2-D stencil": Program(stencil, lambda s: (normal(int(2_000 * s), 1_500),), 1, dask_stencil),
    "sort": Program(sort, lambda s: (normal(int(3_000_000 * s)),), 1, dask_sort),
}
