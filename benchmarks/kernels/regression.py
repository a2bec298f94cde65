"""Regressions: the gradient of a logistic model (reads X once, if it can), and a line through points."""

from __future__ import annotations

import math
from typing import Any

import numpy

from benchmarks.kernels.registry import ND, Inputs, normal, program, uniform

FEATURES = 50
ROWS = 100_000  # per chunk of Dask's


def labelled(n: int) -> Inputs:
    rows = max(n // FEATURES, 4)
    X = normal(rows, FEATURES)
    return X, (uniform(rows, seed=1) < 0.5).astype(float), normal(FEATURES, seed=2) * 0.1


def numba_logistic(numba: Any, jit: Any) -> Any:
    @jit
    def f(X: ND, y: ND, w: ND) -> ND:
        rows, d = X.shape
        parts = numpy.zeros((numba.get_num_threads(), d))
        for part in numba.prange(parts.shape[0]):
            own = numpy.zeros(d)
            for i in range(rows * part // parts.shape[0], rows * (part + 1) // parts.shape[0]):
                z = 0.0
                for j in range(d):
                    z += X[i, j] * w[j]
                r = 1 / (1 + math.exp(-z)) - y[i]
                for j in range(d):
                    own[j] += X[i, j] * r
            parts[part] = own
        return parts.sum(0)

    return f


def dask_logistic(da: Any, X: ND, y: ND, w: ND) -> Any:
    rows = min(ROWS, len(y))
    DX, Dy = da.from_array(X, chunks=(rows, FEATURES)), da.from_array(y, chunks=rows)
    result = DX.T @ (1 / (1 + da.exp(-(DX @ w))) - Dy)
    return lambda: result.compute()


@program(
    labelled,
    50_000_000,
    of_limit=0.9,
    of_peer=1.7,
    numba=numba_logistic,
    dask=dask_logistic,
    c=lambda lib, X, y, w: lib("logistic", *X.shape, X, y, w, out=numpy.empty(X.shape[1])),
)
def logistic_gradient(np: Any, X: Any, y: Any, w: Any) -> Any:
    return X.T @ (1 / (1 + np.exp(-(X @ w))) - y)


def numba_line(numba: Any, jit: Any) -> Any:
    @jit
    def f(x: ND, y: ND) -> tuple[float, float]:
        sx = sy = sxy = sxx = 0.0
        for i in numba.prange(x.size):
            sx += x[i]
            sy += y[i]
            sxy += x[i] * y[i]
            sxx += x[i] * x[i]
        mx, my = sx / x.size, sy / x.size
        slope = (sxy / x.size - mx * my) / (sxx / x.size - mx * mx)
        return slope, my - slope * mx

    return f


@program(
    lambda n: (uniform(n), uniform(n, seed=1)),
    10_000_000,
    rtol=1e-6,  # the slope of unrelated numbers is near zero
    numba=numba_line,
    c=lambda lib, x, y: lib("line_fit", x.size, x, y, out=(numpy.empty(1), numpy.empty(1))),
)
def simple_regression(np: Any, x: Any, y: Any) -> Any:
    mx, my = np.mean(x), np.mean(y)
    slope = (np.mean(x * y) - mx * my) / (np.mean(x * x) - mx * mx)
    return slope, my - slope * mx
