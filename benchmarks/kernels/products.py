"""Matrix products: the limit is BLAS, C, or memory where matrices are read once."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.kernels.registry import Inputs, normal, program, side

TALL = 50
NARROW = 20


def two_squares(n: int) -> Inputs:
    return normal(side(n), side(n)), normal(side(n), side(n), seed=1)


@program(two_squares, 2_250_000, of_limit=0.93, median=True, work=lambda a, b, result: 2.0 * len(a) ** 3)
def matmul(np: Any, a: Any, b: Any) -> Any:
    return a @ b


@program(
    lambda n: (normal(side(n), side(n)) / side(n), normal(side(n), seed=1)),
    9_000_000,
    c=lambda lib, a, v: lib("matvec_chain", len(a), a, v, out=lib.empty(len(a))),
)
def matvec_chain(np: Any, a: Any, v: Any) -> Any:
    return a @ (a.T @ (a @ v))


def tall(n: int) -> Inputs:
    return (normal(max(n // TALL, 4), TALL),)


@program(
    tall,
    25_000_000,
    moved=lambda X, result: X.nbytes,
    work=lambda X, result: 1.0 * X.size * TALL,  # half of a full product: the result is symmetric
)
def tall_gram(np: Any, X: Any) -> Any:
    return X.T @ X


@program(
    lambda n: (*tall(n), normal(TALL, NARROW, seed=1)),
    25_000_000,
    moved=lambda X, W, result: X.nbytes + result.nbytes,
    work=lambda X, W, result: 2.0 * X.size * NARROW,
)
def tall_project(np: Any, X: Any, W: Any) -> Any:
    return np.maximum(X @ W, 0)


@program(
    lambda n: (normal(*[side(n, 4)] * 4), normal(side(n, 4), side(n, 4), seed=1)),
    6_561,
)
def tensor_rotation(np: Any, t: Any, r: Any) -> Any:
    for _ in range(4):  # each turn rotates the first axis and puts it last
        t = np.tensordot(t, r, axes=(0, 0))
    return t


def spins(n: int) -> Inputs:
    offset = numpy.linspace(-1, 1, n)
    return offset, numpy.zeros(n), numpy.zeros(n), numpy.ones(n)


PULSES = 20


@program(
    spins,
    100_000,
    c=lambda lib, w, x, y, z: lib("pulses", w.size, PULSES, w, x, y, z, out=tuple(numpy.empty_like(x) for _ in "xyz")),
)
def pulseprop(np: Any, w: Any, x: Any, y: Any, z: Any) -> Any:
    c, s = np.cos(w), np.sin(w)
    for k in range(PULSES):
        x, y = c * x - s * y, s * x + c * y
        cosine, sine = float(numpy.cos(0.1 * k)), float(numpy.sin(0.1 * k))
        y, z = cosine * y - sine * z, sine * y + cosine * z
    return x, y, z
