"""What tiles make of large results goes past the caches: straight from long rows, or through scratch."""

from __future__ import annotations

import numpy as np
import pytest

import tilewise as tw
from tilewise.backend.llvm.call import compiled

PROGRAMS = {
    "long rows": lambda np, X: (X - X.max(1, keepdims=True)) * 2,
    "two results": lambda np, X: (lambda s: (X - s, X * s))(X.sum(1, keepdims=True)),
    "read again": lambda np, X: (lambda y: (y, (y * y.sum(1, keepdims=True)).sum(1)))(np.exp(X * 0)),
    "layers": lambda np, X: np.maximum(X @ (X[:5].T + 1), 0),
    "transposed": lambda np, X: (X - X.max(1, keepdims=True)).T * 2,
    "sums of rows": lambda np, X: (X - X.max(1, keepdims=True)).sum(1),
}
SHAPES = [(1, 1), (3, 5), (50, 20), (200, 300), (700, 9)]


def several(made):
    return made if isinstance(made, tuple) else (made,)


@pytest.fixture
def streaming(monkeypatch, retune):
    """Every result counts as large; the list says of each native code whether it stores past the caches."""
    found: list[bool] = []
    real = compiled.Compiled.alone

    def alone(self, *args):
        made = real(self, *args)
        found.append(made is not None and made.streams)
        return made

    retune(stream_at_bytes=1)
    monkeypatch.setattr(compiled.Compiled, "alone", alone)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "c16"])
def test_same_values_whatever_the_tile_and_the_threads(streaming, name, dtype):
    rng = np.random.default_rng(3)
    for shape in SHAPES:
        X = rng.integers(-8, 9, size=shape).astype(dtype)
        want = several(PROGRAMS[name](np, X))
        for tile in (1, 7, 64):
            for threads in (1, 2, 5):
                with tw.config(eager_bytes=0, tile=tile, threads=threads):
                    found = several(tw.compute(*several(PROGRAMS[name](tw, tw.asarray(X)))))
                for a, b in zip(want, found, strict=True):
                    assert a.dtype == b.dtype and np.array_equal(a, b), (shape, tile, threads)


def test_columns_of_a_result_that_scratch_does_not_hold(streaming):
    a, b = np.random.default_rng(5).normal(size=(2, 700))

    def program(a, b):
        return (a[:, None] - b) * 2 + a * b  # cut across, so that tiles have their part of a * b

    for tile in (1, 7, 64):
        with tw.config(eager_bytes=0, tile=tile):
            assert np.array_equal(program(tw.asarray(a), tw.asarray(b)).compute(), program(a, b))


@pytest.mark.skipif(not compiled.host_machine().masked, reason="only machines with masked stores stream")
@pytest.mark.parametrize(
    ("name", "shape"), [("long rows", (400, 301)), ("layers", (900, 21)), ("two results", (410, 99))]
)
def test_large_results_are_streamed(streaming, name, shape):
    X = np.random.default_rng(4).normal(size=shape)
    with tw.config(eager_bytes=0, tile=32):
        tw.compute(*several(PROGRAMS[name](tw, tw.asarray(X))))
    assert any(streaming)


@pytest.mark.skipif(not compiled.host_machine().masked, reason="only machines with masked stores stream")
def test_what_a_tile_reads_again_stays_in_the_caches(streaming):
    X = np.random.default_rng(4).normal(size=(400, 303))
    with tw.config(eager_bytes=0, tile=8):
        y, s = PROGRAMS["read again"](tw, tw.asarray(X))
        tw.compute(y, s)
    assert streaming and not any(streaming)
