"""A matrix by its own transpose, summed over tiles: half of it is computed."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

import tilewise as tw
from tests.effort import SOME_OR_ALL
from tests.kernel.guards import guarded
from tests.kernel.support import RUNNABLE
from tilewise.backend.llvm.call.tile_walk import Ref
from tilewise.backend.llvm.compile.cpu import host_machine, level
from tilewise.backend.llvm.products.gram import gram
from tilewise.backend.llvm.tiles.builder import Builder

PROGRAMS = {
    "X.T @ X": lambda np, X: X.T @ X,
    "with sums": lambda np, X: (X.T @ X, X.sum(0)),
    "of what is computed": lambda np, X: (lambda Y: (Y.T @ Y, Y.sum(0)))(X * 2 + 1),
    "by columns": lambda np, X: (lambda Y: (Y @ Y.T, Y.sum(1)))(X.T),
}
OTHERS = {  # windows at other places look alike to a plan: they are left to BLAS
    "of some columns": lambda np, X: (lambda Y: (Y.T @ Y, Y.sum(0)))(X[:, X.shape[1] // 2 :]),
    "of rows that lie apart": lambda np, X: (lambda Y: (Y.T @ Y, Y.sum(0)))(X[::2]),
    "two matrices": lambda np, X: (X.T @ (X + 1), X.sum(0)),
    "parts of complex numbers": lambda np, X: (lambda Y: (Y.imag.T @ Y.imag, Y.real.sum(0)))(X * (1 + 2j)),
    "two parts": lambda np, X: (X[1:].T @ X[:-1], X.sum(0)),
    "X @ X": lambda np, X: (X.T @ X[::-1], X.sum(0)),
}
SHAPES = [(0, 3), (1, 1), (5, 1), (100, 2), (64, 16), (333, 17), (1000, 50), (2000, 33), (500, 70)]


def several(made):
    return made if isinstance(made, tuple) else (made,)


@pytest.fixture
def grams(monkeypatch):
    """How many products were made by halves."""
    found = []
    real = Builder._gram

    def seen(self, step, first):
        made = real(self, step, first)
        found.append(made is not None)
        return made

    monkeypatch.setattr(Builder, "_gram", seen)
    return found


@pytest.mark.quick_code
@pytest.mark.parametrize("name", [*PROGRAMS, *OTHERS])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "c16"])
@pytest.mark.parametrize("whole", SOME_OR_ALL)
def test_numpys_values_whatever_the_tile_and_the_threads(name, dtype, whole, some):
    ways = [(None, 1), (None, 5), (1, 2), (7, 1), (7, 5)]
    program = {**PROGRAMS, **OTHERS}[name]
    for shape in SHAPES if whole else some(SHAPES):
        X = np.random.default_rng(1).integers(-8, 9, shape).astype(dtype)  # sums are exact
        want = several(program(np, X))
        for tile, threads in itertools.product((None, 1, 7), (1, 2, 5)) if whole else some(ways):
            with tw.config(eager_bytes=0, tile=tile, threads=threads):
                found = several(tw.compute(*several(program(tw, tw.asarray(X)))))
            for a, b in zip(want, found, strict=True):
                assert a.dtype == b.dtype and np.array_equal(a, b), (shape, tile, threads)


@pytest.mark.skipif(not host_machine().fuses, reason="BLAS is quicker where nothing multiplies and adds at once")
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_matrix_takes_half_of_the_work(grams, name):
    X = np.random.default_rng(2).normal(size=(40_000, 20))
    with tw.config(eager_bytes=0, tile=512):
        tw.compute(*several(PROGRAMS[name](tw, tw.asarray(X))))
    assert grams and all(grams)


@pytest.mark.parametrize("name", OTHERS)
def test_others_do_not(grams, name):
    X = np.random.default_rng(2).normal(size=(40_000, 20))
    with tw.config(eager_bytes=0, tile=512):
        tw.compute(*several(OTHERS[name](tw, tw.asarray(X))))
    assert not any(grams)


@pytest.mark.parametrize("width", [w for w in RUNNABLE if w != 0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_only_its_own_memory(dtype, width, side):
    machine = host_machine() if width is None else level(width)
    met = 0
    for rows, columns in itertools.product((1, 5, 130), (1, 3, 7, 8, 9, 11, 14, 16, 17, 23, 31, 50, 65)):
        size = np.dtype(dtype).itemsize
        X, sums = (guarded((n, columns), dtype, (columns * size, size), side) for n in (rows, columns))
        X[...] = np.random.default_rng(columns).integers(-4, 5, X.shape)
        sums[...] = 1
        call = gram(Ref(X), Ref(sums), machine)
        if call is not None:
            met += 1
            objects = (ctypes.c_void_p * 2)(id(X), id(sums))
            call.code(ctypes.cast(objects, ctypes.c_char_p), call.geometry)
            np.testing.assert_array_equal(np.tril(sums), np.tril(X.T @ X + 1))
    assert met > 15 if machine.fuses else not met


def test_symmetric_to_the_bit_and_the_same_on_all_threads():
    X = np.random.default_rng(3).normal(size=(50_001, 37))
    results = []
    for threads in (1, 2, 5):
        with tw.config(threads=threads):
            a = tw.asarray(X)
            results.append((a.T @ a).compute())
    for found in results:
        assert np.array_equal(found, found.T) and found.tobytes() == results[0].tobytes()
        np.testing.assert_allclose(found, X.T @ X, rtol=1e-11, atol=1e-9)


def test_two_arrays_that_look_alike_are_two():
    X = np.random.default_rng(3).normal(size=(50_001, 37))
    a, b = tw.asarray(X), tw.asarray(X + 1)
    (a.T @ a).compute()
    np.testing.assert_allclose((a.T @ b).compute(), X.T @ (X + 1), rtol=1e-9, atol=1e-9)


def test_infinities_and_nan():
    X = np.ones((3000, 10))
    X[5, 3], X[700, 4] = np.inf, np.nan
    with tw.config(eager_bytes=0, tile=256):
        a = tw.asarray(X)
        found = (a.T @ a).compute()
    np.testing.assert_array_equal(found, X.T @ X)
