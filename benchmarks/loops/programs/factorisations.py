"""Factorisations of dense matrices, in place or into new arrays."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import dominant, loops, rng, spd


@loops(
    lambda n: (spd(n),),
    40,
    140,
    written=(0,),
    c=lambda lib, a: lib("cholesky", len(a), out=a),
)
def cholesky(A):
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[j, k]
            A[i, j] /= A[j, j]
        for k in range(i):
            A[i, i] -= A[i, k] * A[i, k]
        A[i, i] = np.sqrt(A[i, i])


@loops(lambda n: (spd(n),), 60, 200, written=(0,))
def cholesky_slices(A):
    n = A.shape[0]
    A[0, 0] = np.sqrt(A[0, 0])
    for i in range(1, n):
        for j in range(i):
            A[i, j] -= np.dot(A[i, :j], A[j, :j])
            A[i, j] /= A[j, j]
        A[i, i] -= np.dot(A[i, :i], A[i, :i])
        A[i, i] = np.sqrt(A[i, i])


def lu_parallel(A):
    n = A.shape[0]
    for k in range(n):
        for i in prange(k + 1, n):
            A[i, k] /= A[k, k]
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]


@loops(
    lambda n: (dominant(n),),
    40,
    140,
    written=(0,),
    parallel=lu_parallel,
    c=lambda lib, a: lib("lu", len(a), out=a),
)
def lu(A):
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[k, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            for k in range(i):
                A[i, j] -= A[i, k] * A[k, j]


@loops(lambda n: (dominant(n),), 60, 200, written=(0,), parallel=lu_parallel)
def lu_slices(A):
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[:j, j]
            A[i, j] /= A[j, j]
        for j in range(i, A.shape[0]):
            A[i, j] -= A[i, :i] @ A[:i, j]


@loops(lambda n: (dominant(n)[::-1].copy(), np.arange(n)), 50, 160, written=(0, 1))
def lu_pivoted(A, order):
    n = len(A)
    swaps = 0
    for k in range(n - 1):
        best = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[best, k]):
                best = i
        if best != k:
            for j in range(n):
                t = A[k, j]
                A[k, j] = A[best, j]
                A[best, j] = t
            t = order[k]
            order[k] = order[best]
            order[best] = t
            swaps += 1
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]
    return swaps


@loops(lambda n: (spd(n),), 40, 140)
def ldlt(A):
    n = A.shape[0]
    L = np.eye(n)
    d = np.zeros(n)
    for j in range(n):
        s = A[j, j]
        for k in range(j):
            s -= L[j, k] * L[j, k] * d[k]
        d[j] = s
        for i in range(j + 1, n):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k] * d[k]
            L[i, j] = s / d[j]
    return L, d


def gram_schmidt_loops(A):
    m, n = A.shape
    Q = np.zeros((m, n))
    R = np.zeros((n, n))
    for k in range(n):
        s = 0.0
        for i in range(m):
            s += A[i, k] * A[i, k]
        R[k, k] = np.sqrt(s)
        for i in range(m):
            Q[i, k] = A[i, k] / R[k, k]
        for j in range(k + 1, n):
            s = 0.0
            for i in range(m):
                s += Q[i, k] * A[i, j]
            R[k, j] = s
            for i in range(m):
                A[i, j] -= Q[i, k] * s
    return Q, R


@loops(lambda n: (rng().random((n + n // 4, n)),), 50, 160, written=(0,), own=gram_schmidt_loops)
def gram_schmidt(A):
    m, n = A.shape
    Q = np.zeros((m, n))
    R = np.zeros((n, n))
    for k in range(n):
        R[k, k] = np.sqrt(np.sum(A[:, k] * A[:, k]))
        Q[:, k] = A[:, k] / R[k, k]
        for j in range(k + 1, n):
            R[k, j] = np.sum(Q[:, k] * A[:, j])
            A[:, j] -= Q[:, k] * R[k, j]
    return Q, R


@loops(lambda n: (rng().random((n, n)),), 40, 140, written=(0,))
def householder_qr(A):
    m, n = A.shape
    beta = np.zeros(n)
    for k in range(n):
        norm = 0.0
        for i in range(k, m):
            norm += A[i, k] ** 2
        norm = np.sqrt(norm)
        if norm == 0.0:
            continue
        alpha = -norm if A[k, k] > 0 else norm
        head = A[k, k] - alpha
        for i in range(k + 1, m):
            A[i, k] /= head
        beta[k] = -head / alpha
        A[k, k] = alpha
        for j in range(k + 1, n):
            s = A[k, j]
            for i in range(k + 1, m):
                s += A[i, k] * A[i, j]
            s *= beta[k]
            A[k, j] -= s
            for i in range(k + 1, m):
                A[i, j] -= s * A[i, k]
    return beta


def gauss_jordan_parallel(A):
    n = A.shape[0]
    B = np.eye(n)
    for k in range(n):
        p = 1.0 / A[k, k]
        for j in range(n):
            A[k, j] *= p
            B[k, j] *= p
        for i in prange(n):
            if i != k:
                f = A[i, k]
                for j in range(n):
                    A[i, j] -= f * A[k, j]
                    B[i, j] -= f * B[k, j]
    return B


@loops(lambda n: (dominant(n),), 40, 130, written=(0,), parallel=gauss_jordan_parallel, own=gauss_jordan_parallel)
def gauss_jordan(A):
    n = A.shape[0]
    B = np.eye(n)
    for k in range(n):
        p = 1.0 / A[k, k]
        A[k] *= p
        B[k] *= p
        for i in range(n):
            if i == k:
                continue
            f = A[i, k]
            A[i] -= f * A[k]
            B[i] -= f * B[k]
    return B


@loops(lambda n: (spd(n), 4), 16, 40, written=(0,))
def jacobi_eigenvalues(A, sweeps):
    n = A.shape[0]
    for _ in range(sweeps):
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(A[p, q]) < 1e-300:
                    continue
                theta = (A[q, q] - A[p, p]) / (2.0 * A[p, q])
                t = 1.0 / (abs(theta) + np.sqrt(theta * theta + 1.0))
                if theta < 0.0:
                    t = -t
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c
                for k in range(n):
                    x, y = A[k, p], A[k, q]
                    A[k, p] = c * x - s * y
                    A[k, q] = s * x + c * y
                for k in range(n):
                    x, y = A[p, k], A[q, k]
                    A[p, k] = c * x - s * y
                    A[q, k] = s * x + c * y
    return np.array([A[i, i] for i in range(n)])
