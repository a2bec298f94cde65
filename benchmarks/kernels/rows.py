"""Reductions and what follows them: softmax, normalisations, variance, histogram, cumulative sum."""

from __future__ import annotations

import math
from typing import Any

import numpy

from benchmarks.kernels.registry import ND, Inputs, normal, program, uniform

COLUMNS = 500  # of a row that is normalised
FEATURES = 50  # of columns that are standardised
EPSILON = 1e-5
BINS = 100


def wide(n: int) -> Inputs:
    return (normal(max(n // COLUMNS, 2), COLUMNS),)


def numba_softmax(numba: Any, jit: Any) -> Any:
    @jit
    def f(x: ND) -> ND:
        out = numpy.empty_like(x)
        for i in numba.prange(x.shape[0]):
            top = x[i].max()
            total = 0.0
            for j in range(x.shape[1]):
                out[i, j] = math.exp(x[i, j] - top)
                total += out[i, j]
            for j in range(x.shape[1]):
                out[i, j] /= total
        return out

    return f


@program(wide, 10_000_000, numba=numba_softmax, c=lambda lib, x: lib("softmax", *x.shape, x, out=lib.empty(x.shape)))
def softmax(np: Any, x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def scaled(n: int) -> Inputs:
    return (*wide(n), uniform(COLUMNS, seed=1), uniform(COLUMNS, seed=2))


def numba_layer_norm(numba: Any, jit: Any) -> Any:
    @jit
    def f(x: ND, gain: ND, bias: ND) -> ND:
        out = numpy.empty_like(x)
        for i in numba.prange(x.shape[0]):
            mean = x[i].mean()
            square = 0.0
            for j in range(x.shape[1]):
                square += (x[i, j] - mean) ** 2
            scale = 1 / math.sqrt(square / x.shape[1] + EPSILON)
            for j in range(x.shape[1]):
                out[i, j] = (x[i, j] - mean) * scale * gain[j] + bias[j]
        return out

    return f


@program(
    scaled,
    10_000_000,
    numba=numba_layer_norm,
    c=lambda lib, x, g, b: lib("layer_norm", *x.shape, EPSILON, x, g, b, out=lib.empty(x.shape)),
)
def layer_norm(np: Any, x: Any, gain: Any, bias: Any) -> Any:
    mean, var = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(var + EPSILON) * gain + bias


def numba_variance(numba: Any, jit: Any) -> Any:
    @jit
    def f(x: ND) -> float:
        total = 0.0
        for i in numba.prange(x.size):
            total += x[i]
        mean = total / x.size
        square = 0.0
        for i in numba.prange(x.size):
            square += (x[i] - mean) ** 2
        return square / x.size

    return f


@program(
    lambda n: (normal(n),),
    20_000_000,
    numba=numba_variance,
    c=lambda lib, x: lib("variance", x.size, x, out=lib.empty(1)),
)
def variance(np: Any, x: Any) -> Any:
    return x.var()


def numba_standardise(numba: Any, jit: Any) -> Any:
    @jit
    def f(X: ND) -> ND:
        n, d = X.shape
        threads = numba.get_num_threads()
        sums, squares = numpy.zeros((threads, d)), numpy.zeros((threads, d))
        for part in numba.prange(threads):
            for i in range(n * part // threads, n * (part + 1) // threads):
                for j in range(d):
                    sums[part, j] += X[i, j]
                    squares[part, j] += X[i, j] ** 2
        mean = sums.sum(0) / n
        scale = 1 / numpy.sqrt(squares.sum(0) / n - mean**2)
        out = numpy.empty_like(X)
        for i in numba.prange(n):
            for j in range(d):
                out[i, j] = (X[i, j] - mean[j]) * scale[j]
        return out

    return f


@program(
    lambda n: (normal(max(n // FEATURES, 2), FEATURES),),
    10_000_000,
    numba=numba_standardise,
    c=lambda lib, X: lib("standardise", *X.shape, X, out=lib.empty(X.shape)),
)
def standardise(np: Any, X: Any) -> Any:
    return (X - X.mean(axis=0)) / X.std(axis=0)


def numba_histogram(numba: Any, jit: Any) -> Any:
    @jit
    def f(x: ND) -> ND:
        threads = numba.get_num_threads()
        counts = numpy.zeros((threads, BINS), dtype=numpy.int64)
        for part in numba.prange(threads):
            for i in range(x.size * part // threads, x.size * (part + 1) // threads):
                k = int(x[i] * BINS)
                if 0 <= k < BINS:
                    counts[part, k] += 1
        return counts.sum(0)

    return f


def dask_histogram(da: Any, x: ND) -> Any:
    counts, _ = da.histogram(da.from_array(x, chunks=min(1_000_000, x.size)), bins=BINS, range=(0, 1))
    return lambda: counts.compute()


@program(
    lambda n: (uniform(n),),
    10_000_000,
    numba=numba_histogram,
    dask=dask_histogram,
    c=lambda lib, x: lib("histogram", x.size, BINS, x, out=numpy.empty(BINS, dtype=numpy.int64)),
)
def histogram(np: Any, x: Any) -> Any:
    return np.histogram(x, bins=BINS, range=(0, 1))[0]


@program(
    lambda n: (uniform(n),),
    10_000_000,
    numba=lambda numba, jit: jit(lambda x: numpy.cumsum(x)),
    dask=lambda da, x: da.cumsum(da.from_array(x, chunks=min(1_000_000, x.size)), axis=0).compute,
    c=lambda lib, x: lib("cumulative", x.size, x, out=lib.empty(x.shape)),
)
def cumulative_sum(np: Any, x: Any) -> Any:
    return np.cumsum(x)
