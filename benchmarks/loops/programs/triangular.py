"""Triangular products and solves, and dense products by loops."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import dominant, loops, rng


def _two(n):
    r = rng()
    return r.random((n, n)), r.random((n, n))


def trmm_parallel(alpha, A, B):
    m, n = B.shape
    C = np.empty((m, n))
    for i in prange(m):
        for j in range(n):
            C[i, j] = B[i, j]
        for k in range(i + 1, m):
            for j in range(n):
                C[i, j] += A[k, i] * B[k, j]
        for j in range(n):
            C[i, j] *= alpha
    B[:] = C


@loops(
    lambda n: (1.5, *_two(n)),
    40,
    140,
    written=(2,),
    parallel=trmm_parallel,
    c=lambda lib, alpha, a, b: lib("trmm", len(a), alpha, a, out=b),
)
def trmm(alpha, A, B):
    for i in range(B.shape[0]):
        for j in range(B.shape[1]):
            for k in range(i + 1, B.shape[0]):
                B[i, j] += A[k, i] * B[k, j]
            B[i, j] *= alpha


def syrk_parallel(alpha, beta, C, A):
    n, m = A.shape
    for i in prange(n):
        for j in range(i + 1):
            s = 0.0
            for k in range(m):
                s += A[i, k] * A[j, k]
            C[i, j] = beta * C[i, j] + alpha * s


@loops(lambda n: (1.5, 1.2, *_two(n)), 60, 200, written=(2,), parallel=syrk_parallel, own=syrk_parallel)
def syrk(alpha, beta, C, A):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]


@loops(lambda n: (np.tril(dominant(n)), rng(1).random(n)), 150, 600)
def forward_substitution(L, b):
    n = len(b)
    x = np.zeros(n)
    for i in range(n):
        s = b[i]
        for j in range(i):
            s -= L[i, j] * x[j]
        x[i] = s / L[i, i]
    return x


@loops(lambda n: (np.triu(dominant(n)), rng(1).random(n)), 200, 800, written=(1,))
def back_substitution_slices(U, b):
    for i in range(len(b) - 1, -1, -1):
        b[i] = (b[i] - U[i, i + 1 :] @ b[i + 1 :]) / U[i, i]


def triangular_solve_parallel(L, B):
    n, m = B.shape
    for i in range(n):
        for j in prange(m):
            s = B[i, j]
            for k in range(i):
                s -= L[i, k] * B[k, j]
            B[i, j] = s / L[i, i]


@loops(lambda n: (dominant(n), rng(1).random((n, n))), 40, 140, written=(1,), parallel=triangular_solve_parallel)
def triangular_solve(L, B):
    n, m = B.shape
    for j in range(m):
        for i in range(n):
            for k in range(i):
                B[i, j] -= L[i, k] * B[k, j]
            B[i, j] /= L[i, i]


@loops(lambda n: (rng().random(n),), 120, 500)
def levinson_durbin(r):
    n = len(r)
    y = np.empty(n)
    z = np.empty(n)
    alpha = -r[0]
    beta = 1.0
    y[0] = -r[0]
    for k in range(1, n):
        beta *= 1.0 - alpha * alpha
        s = 0.0
        for i in range(k):
            s += r[k - i - 1] * y[i]
        alpha = -(r[k] + s) / beta
        for i in range(k):
            z[i] = y[i] + alpha * y[k - i - 1]
        for i in range(k):
            y[i] = z[i]
        y[k] = alpha
    return y


@loops(lambda n: tuple(rng(s).random(n) + (3.0 if s == 1 else 0.0) for s in range(4)), 2_000, 100_000)
def thomas(lower, diagonal, upper, right):
    n = len(diagonal)
    c = np.empty(n)
    x = np.empty(n)
    c[0] = upper[0] / diagonal[0]
    x[0] = right[0] / diagonal[0]
    for i in range(1, n):
        w = diagonal[i] - lower[i] * c[i - 1]
        c[i] = upper[i] / w
        x[i] = (right[i] - lower[i] * x[i - 1]) / w
    for i in range(n - 2, -1, -1):
        x[i] -= c[i] * x[i + 1]
    return x


def matrix_power_loops(A, exponent, modulus):
    n = len(A)
    result = np.zeros((n, n), dtype=np.int64)
    for i in range(n):
        result[i, i] = 1
    base = A % modulus
    while exponent > 0:
        if exponent % 2 == 1:
            made = np.zeros((n, n), dtype=np.int64)
            for i in range(n):
                for k in range(n):
                    for j in range(n):
                        made[i, j] = (made[i, j] + result[i, k] * base[k, j]) % modulus
            result = made
        made = np.zeros((n, n), dtype=np.int64)
        for i in range(n):
            for k in range(n):
                for j in range(n):
                    made[i, j] = (made[i, j] + base[i, k] * base[k, j]) % modulus
        base = made
        exponent //= 2
    return result


@loops(lambda n: (rng().integers(0, 1000, (n, n)), 1_000_003, 10_007), 8, 24, own=matrix_power_loops)
def matrix_power(A, exponent, modulus):
    n = len(A)

    def product(x, y):
        made = np.zeros((n, n), dtype=np.int64)
        for i in range(n):
            for j in range(n):
                s = 0
                for k in range(n):
                    s += x[i, k] * y[k, j]
                made[i, j] = s % modulus
        return made

    result = np.zeros((n, n), dtype=np.int64)
    for i in range(n):
        result[i, i] = 1
    base = A % modulus
    while exponent > 0:
        if exponent & 1:
            result = product(result, base)
        base = product(base, base)
        exponent >>= 1
    return result
