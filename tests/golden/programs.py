"""The programs of the goldens: a spread over what the planner does, at sizes that choose the plans of larger ones.

A program is a function of arrays; its decorator says of which. Nothing of it runs: only its plans are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
from scipy.special import erf

import tilewise as np

PLACED_ROWS = 1000  # inputs with as many rows lie on the workers already, cut by rows; smaller ones on the driver


@dataclass(frozen=True)
class Leaf:
    """An input. Of its elements, plans know only how many a mask keeps: a part that grows evenly from 0 to 1."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def placed(self) -> bool:
        """Whether it lies on the workers of a mesh before the program begins."""
        return self.shape[0] >= PLACED_ROWS

    def array(self) -> Any:
        return numpy.linspace(0, 1, math.prod(self.shape)).reshape(self.shape).astype(self.dtype)


@dataclass(frozen=True)
class Program:
    """A function of inputs; `grid`: also planned on 2 x 2 workers."""

    run: Callable[..., Any]
    leaves: tuple[Leaf, ...]
    grid: bool

    @property
    def name(self) -> str:
        return self.run.__name__


PROGRAMS: dict[str, Program] = {}


def f8(*shape: int) -> Leaf:
    return Leaf(shape, "float64")


def f4(*shape: int) -> Leaf:
    return Leaf(shape, "float32")


def i8(*shape: int) -> Leaf:
    return Leaf(shape, "int64")


def c16(*shape: int) -> Leaf:
    return Leaf(shape, "complex128")


def program(*leaves: Leaf, grid: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[run.__name__] = Program(run, leaves, grid)
        return run

    return register


# --- programs of the papers and of benchmarks/kernels -------------------------------------------------------------


@program(f8(20_000, 50), f8(16, 50))
def kmeans_one_hot(X, C):
    near = ((X * X).sum(1)[:, None] - 2 * (X @ C.T) + (C * C).sum(1)).argmin(1)
    hot = (near[:, None] == np.arange(len(C))).astype(float)
    return (hot.T @ X) / hot.sum(0)[:, None]


@program(f8(20_000, 50), f8(16, 50))
def kmeans_broadcast(X, C):
    near = ((X[:, None, :] - C) ** 2).sum(-1).argmin(1)
    hot = (near[:, None] == np.arange(len(C))).astype(float)
    return (hot.T @ X) / hot.sum(0)[:, None]


@program(f8(20_000, 50), f8(16, 50))
def kmeans_masks(X, C):
    near = ((X * X).sum(1)[:, None] - 2 * (X @ C.T) + (C * C).sum(1)).argmin(1)
    return np.stack([X[near == k].mean(0) for k in range(len(C))])


@program(f8(20_000, 50), f8(16, 50))
def kmeans_add_at(X, C):
    near = ((X * X).sum(1)[:, None] - 2 * (X @ C.T) + (C * C).sum(1)).argmin(1)
    sums, counts = np.zeros(C.shape), np.zeros(len(C))
    np.add.at(sums, near, X)
    np.add.at(counts, near, 1.0)
    return sums / counts[:, None]


@program(f8(20_000, 50), f8(20_000), f8(50), grid=True)
def logistic_gradient(X, y, w):
    return X.T @ (1 / (1 + np.exp(-(X @ w))) - y)


@program(f8(60_000, 50), grid=True)
def standardise(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


@program(f8(60_000, 50))
def standardise_gram(X):
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return Z.T @ Z


@program(f8(4_000, 500), grid=True)
def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@program(f8(4_000, 500), f8(500), f8(500))
def layer_norm(x, gain, bias):
    mean, var = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * gain + bias


@program(f8(1_200, 1_200), grid=True)
def jacobi(u):
    u = u.copy()
    for _ in range(3):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


@program(f8(200_000), f8(200_000), f8(200_000))
def black_scholes(s, k, t):
    spread = 0.2 * np.sqrt(t)
    d1 = (np.log(s / k) + 0.07 * t) / spread
    d2 = d1 - spread
    n1, n2 = 0.5 * (1 + erf(d1 * 0.5**0.5)), 0.5 * (1 + erf(d2 * 0.5**0.5))
    discounted = k * np.exp(-0.05 * t)
    return s * n1 - discounted * n2, discounted * (1 - n2) - s * (1 - n1)


@program(f8(1_200, 1_200))
def gaussian_blur(x):
    h, w = x.shape
    taps = (0.0625, 0.25, 0.375, 0.25, 0.0625)
    rows = sum(tap * x[i : h - 4 + i, :] for i, tap in enumerate(taps))
    return sum(tap * rows[:, j : w - 4 + j] for j, tap in enumerate(taps))


@program(f8(1_200, 1_200))
def harris(x):
    def box(a):
        rows = a[:-2] + a[1:-1] + a[2:]
        return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]

    dx = 0.5 * (x[1:-1, 2:] - x[1:-1, :-2])
    dy = 0.5 * (x[2:, 1:-1] - x[:-2, 1:-1])
    a, b, c = box(dx * dx), box(dy * dy), box(dx * dy)
    return a * b - c * c - 0.05 * (a + b) ** 2


# --- elementwise work and reductions ------------------------------------------------------------------------------


@program(f8(200_000), f8(200_000), f8(200_000))
def chain(a, b, c):
    return 2 * a * b + c - a / 3 + b * c


@program(f4(4_000, 100), i8(4_000, 1), f8(100))
def casts(a, n, b):
    return (a.astype(np.float64) + n * b).astype(np.float32), n.astype(np.int8)


@program(c16(100_000), f8(100_000))
def complex_numbers(z, phase):
    w = z * np.exp(1j * phase)
    return np.abs(w).sum(), (w.real * w.imag).max(), w.conj()


@program(f8(200_000), f8(200_000))
def sums_share_a_pass(x, y):
    return x.sum(), y.sum(), (x * y).sum(), (x * x).sum()


@program(f8(9_000_000))
def one_pass_variance(x):
    return x.var()


@program(f8(20_000, 20))
def extremes(x):
    return x.argmin(), x.argmax(axis=1), x.max() - x.min()


@program(f8(4_000, 100))
def booleans(x):
    return (x > 1).any(axis=0), np.isfinite(x).all(), np.count_nonzero(x > 0.5)


@program(f8(4_000, 100), f8(200_000))
def scans(x, y):
    return np.cumsum(x, axis=0), np.cumsum(x * 2, axis=1), np.cumsum(y)


@program(f8(100_000), f8(100_000))
def rolled_loop(x, y):
    u, v = x, y
    count = np.zeros(x.shape, dtype=np.int64)
    for _ in range(20):
        inside = u * u + v * v <= 4
        count = count + inside
        u, v = np.where(inside, u * u - v * v + x, u), np.where(inside, 2 * u * v + y, v)
    return count


@program(f8(4_000, 60), f8(60), f8(60))
def shared_tiles(x, a, b):
    centred = x - (x @ a)[:, None]
    return (centred * b).sum(axis=1), np.abs(centred).max(axis=1, keepdims=True) * x


# --- keys, masks, indices -----------------------------------------------------------------------------------------


@program(i8(200_000), f8(200_000))
def bincount(keys, weights):
    return np.bincount(keys, weights=weights * 2, minlength=64)


@program(f8(200_000))
def histogram(x):
    return np.histogram(x, bins=100, range=(0, 1))[0]


@program(i8(4_000), f8(4_000, 30))
def one_hot_product(keys, x):
    hot = (keys[:, None] == np.arange(40)).astype(float)
    return hot.T @ x


@program(f8(20_000, 20), f8(20_000))
def masked_sum(x, y):
    return x[y > 0.5].sum(axis=0)


@program(f8(20_000), f8(20_000))
def masked_values(x, y):
    m = y > 0.5
    return x[m] * 2 + y[m]


@program(i8(20_000), f8(20_000), f8(4_000, 20))
def sibling_loops(keys, x, table):
    groups = np.stack([np.where(keys == k, x, 0.0).sum() for k in range(12)])
    columns = np.stack([(table[:, j] ** 2).sum() for j in range(table.shape[1])])
    return groups, columns


@program(f8(20_000, 20), i8(5_000))
def gather_rows(x, rows):
    return x[rows] * 2, np.take(x, rows, axis=0).sum()


@program(f8(20_000), i8(5_000), f8(5_000))
def scatter_values(x, at, new):
    y = x * 2
    y[at] = new
    return y


# --- views, stencils, writes --------------------------------------------------------------------------------------


@program(f8(2_000, 400))
def windows_and_transposes(x):
    y = x.T * 2
    return y[:, ::2] + y[:, 1::2], x[::-1, 10:-10].sum(axis=1)


@program(f8(4_000, 50), f8(1_000, 50))
def concatenate(a, b):
    return np.concatenate([a * 2, b + 1]).sum(axis=1)


@program(f8(100_000), f8(100_000))
def halves(x, y):
    n = len(x) // 2
    return x[:n] + x[n:] * y[1 : n + 1]


@program(f8(2_000, 400))
def updates_in_place(x):
    y = x * 2
    y[0] = 1.0
    y[:, 5:10] *= 3
    y[1:-1] += x[2:]
    return y


@program(f8(2_000, 400))
def update_in_a_copy(x):
    y = x + 1
    z = y.copy()
    z[100:200] = -y[100:200]
    return z - y


# --- products and linear algebra ----------------------------------------------------------------------------------


@program(f8(600, 600), f8(600, 600), f8(600, 8), grid=True)
def matrix_chain(a, b, c):
    return a @ b @ c


@program(f8(1_200, 1_200), f8(1_200, 1_200), grid=True)
def matmul(a, b):
    return np.maximum(a @ b, 0) + 1


@program(f8(40_000, 32), f8(32, 8))
def tall_project(X, W):
    return np.maximum(X @ W, 0)


@program(f8(40_000, 32))
def tall_gram(X):
    return X.T @ X


@program(f8(2_000, 10), f8(500, 10))
def pairwise_distances(a, b):
    return np.sqrt(((a[:, None, :] - b) ** 2).sum(-1))


@program(f8(1_000, 30, 40), f8(40, 30, 5))
def einsum(a, b):
    return np.einsum("ijk,kjl->il", a, b)


@program(f8(20_000, 20))
def qr(X):
    q, r = np.linalg.qr(X)
    return q * 2, r


@program(f8(4_000, 40), f8(40))
def normal_equations(X, y):
    G = X.T @ X + np.eye(40)
    return np.linalg.solve(np.linalg.cholesky(G), y)


# --- operators that are called, or whose workers exchange data of their own -----------------------------------------


@program(f8(100_000), f8(4_000, 50))
def sorts(x, rows):
    return np.sort(x), np.argsort(rows, axis=1)


@program(f8(1_024, 256))
def fft(x):
    spectrum = np.fft.rfft(x, axis=1)
    return np.fft.fft(x, axis=0), np.abs(spectrum) ** 2


@program(f8(20_000))
def random_numbers(x):
    rng = np.random.Generator(np.random.Counter(7))
    return x + rng.normal(size=x.shape), rng.random((4_000, 30)).mean(axis=0)


@program(f8(4_000, 30))
def user_function(x):
    def fourth(tile):
        return numpy.partition(tile, 3, axis=1)[:, 3]

    return np.map_tiles(fourth, x * 2, dtype=float, shape=(4_000,)) + 1


@program(f8(4_000, 30))
def calls_of_numpy(x):
    return np.nan_to_num(x * 2).round(1), np.linalg.norm(x, axis=1), np.linalg.inv(x[:30] + np.eye(30))
