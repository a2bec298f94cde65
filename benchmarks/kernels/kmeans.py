"""One Lloyd iteration of k-means, written as NumPy users write it: four ways, and with broadcast distances."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.kernels.registry import ND, Inputs, normal, program

FEATURES, K = 50, 64
GOALS = {"of_limit": 0.85, "of_peer": 1.8}
SIZE = 25_000_000
BROADCAST_MOST = 1_000_000  # elements of X: NumPy makes 64 times as many twice


def points(n: int) -> Inputs:
    """Points around K places far apart (no distance is near a tie), and centres beside the places."""
    rows = max(n // FEATURES, K)
    places = 5 * normal(K, FEATURES, seed=1)
    X = places[numpy.arange(rows) % K] + normal(rows, FEATURES)
    return X, places + 0.1 * normal(K, FEATURES, seed=2)


def labels(np: Any, X: Any, C: Any) -> Any:
    return ((X * X).sum(1)[:, None] - 2 * (X @ C.T) + (C * C).sum(1)).argmin(1)


def numba_step(numba: Any, jit: Any) -> Any:
    @jit
    def f(X: ND, C: ND) -> ND:
        rows, d = X.shape
        k = C.shape[0]
        threads = numba.get_num_threads()
        sums, counts = numpy.zeros((threads, k, d)), numpy.zeros((threads, k))
        for part in numba.prange(threads):
            for i in range(rows * part // threads, rows * (part + 1) // threads):
                best, least = 0, numpy.inf
                for c in range(k):
                    dist = 0.0
                    for j in range(d):
                        dist += (X[i, j] - C[c, j]) ** 2
                    if dist < least:
                        best, least = c, dist
                counts[part, best] += 1
                for j in range(d):
                    sums[part, best, j] += X[i, j]
        return sums.sum(0) / counts.sum(0).reshape(k, 1)

    return f


def jax_step(jax: Any, np: Any) -> Any:
    def f(X: Any, C: Any) -> Any:
        near = labels(np, X, C)
        sums = jax.ops.segment_sum(X, near, K)
        return sums / jax.ops.segment_sum(np.ones(len(X)), near, K)[:, None]

    return f


def sklearn_step(sklearn: Any, X: ND, C: ND) -> Any:
    from sklearn.cluster._k_means_lloyd import lloyd_iter_chunked_dense
    from threadpoolctl import ThreadpoolController

    blas = ThreadpoolController()
    weight, near = numpy.ones(len(X)), numpy.zeros(len(X), dtype=numpy.int32)

    def f() -> ND:
        new, weights, shift = numpy.zeros_like(C), numpy.zeros(K), numpy.zeros(K)
        with blas.limit(limits=1, user_api="blas"):  # as KMeans.fit does
            lloyd_iter_chunked_dense(X, weight, C, new, weights, near, shift, 2)
        return new

    return f


def dask_step(da: Any, X: ND, C: ND) -> Any:
    def block(x: ND) -> ND:
        near = labels(numpy, x, C)
        hot = numpy.zeros((len(x), K))
        hot[numpy.arange(len(x)), near] = 1
        return numpy.concatenate([hot.T @ x, hot.sum(0)[:, None]], axis=1)[None]

    rows = min(50_000, len(X))
    D = da.from_array(X, chunks=(rows, FEATURES))
    parts = da.map_blocks(block, D, new_axis=0, chunks=((1,) * D.numblocks[0], (K,), (FEATURES + 1,)), dtype=float)
    both = parts.sum(axis=0)

    def f() -> ND:
        found = both.compute()
        return found[:, :-1] / found[:, -1:]

    return f


def c_step(lib: Any, X: ND, C: ND) -> Any:
    return lib("kmeans", *X.shape, K, X, C, out=numpy.empty_like(C))


RIVALS: dict[str, Any] = {
    "numba": numba_step,
    "jax": jax_step,
    "sklearn": sklearn_step,
    "dask": dask_step,
    "c": c_step,
    **GOALS,
}


@program(points, SIZE, **RIVALS)
def kmeans_masks(np: Any, X: Any, C: Any) -> Any:
    near = labels(np, X, C)
    return np.stack([X[near == k].mean(0) for k in range(len(C))])


@program(points, SIZE, **RIVALS)
def kmeans_one_hot(np: Any, X: Any, C: Any) -> Any:
    near = labels(np, X, C)
    hot = (near[:, None] == np.arange(len(C))).astype(float)
    return (hot.T @ X) / hot.sum(0)[:, None]


@program(points, SIZE, **RIVALS)
def kmeans_bincount(np: Any, X: Any, C: Any) -> Any:
    near, k = labels(np, X, C), len(C)
    sums = np.stack([np.bincount(near, weights=X[:, j], minlength=k) for j in range(X.shape[1])], axis=1)
    return sums / np.bincount(near, minlength=k)[:, None]


@program(points, SIZE, **RIVALS)
def kmeans_add_at(np: Any, X: Any, C: Any) -> Any:
    near = labels(np, X, C)
    sums, counts = np.zeros(C.shape), np.zeros(len(C))
    np.add.at(sums, near, X)
    np.add.at(counts, near, 1.0)
    return sums / counts[:, None]


@program(points, SIZE, numpy_most=BROADCAST_MOST, scales=(1_000, 100_000, 1_000_000), **RIVALS)
def kmeans_broadcast(np: Any, X: Any, C: Any) -> Any:
    near = ((X[:, None, :] - C) ** 2).sum(-1).argmin(1)
    hot = (near[:, None] == np.arange(len(C))).astype(float)
    return (hot.T @ X) / hot.sum(0)[:, None]
