"""Booleans as bytes: reductions of them give what NumPy gives, whatever bytes are true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some
from tilewise.backend.llvm.emit.bool_bytes import in_bytes
from tilewise.kernel.loops import Instr, Kernel, Output

REDUCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "any": lambda np, b, axis: np.any(b, axis),
    "all": lambda np, b, axis: np.all(b, axis),
    "max": lambda np, b, axis: np.max(b, axis),
    "min": lambda np, b, axis: np.min(b, axis),
    "argmax": lambda np, b, axis: np.argmax(b, axis),
    "argmin": lambda np, b, axis: np.argmin(b, axis),
    "sum": lambda np, b, axis: np.sum(b, axis),
    "count": lambda np, b, axis: np.count_nonzero(b, axis),
    "sum of small integers": lambda np, b, axis: np.sum(b, axis, dtype="i1"),
    "mean": lambda np, b, axis: np.mean(b, axis),
    "prod": lambda np, b, axis: np.prod(b, axis),
    "or another": lambda np, b, axis: np.any(b | ~b, axis),
    "with another": lambda np, b, axis: np.sum(b * 2.5, axis),
}


@pytest.mark.quick_code
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_reductions(name: str, share: float, some: Some) -> None:
    rng = np.random.default_rng(4)
    for shape in some([(1,), (7,), (64,), (1003,), (3, 5), (40, 200), (200, 40), (6, 7, 33)]):
        B = rng.random(shape) < share
        for seen in (B, B[::-1], B.T, np.repeat(B, 2, -1)[..., ::2]):
            for axis in (None, 0, -1):
                want = REDUCTIONS[name](np, seen, axis)
                with tw.config(eager_bytes=0):
                    got = np.asarray(REDUCTIONS[name](tw, tw.asarray(seen), axis))
                assert got.dtype == want.dtype and np.array_equal(got, want), (shape, axis)


def test_several_at_once() -> None:
    B = np.random.default_rng(5).random((300, 70)) < 0.02
    with tw.config(eager_bytes=0):
        b = tw.asarray(B)
        found = tw.compute(b.any(1), b.all(1), b.sum(1), (b & ~b).any(1))
    for got, want in zip(found, (B.any(1), B.all(1), B.sum(1), (B & ~B).any(1)), strict=True):
        assert got.dtype == want.dtype and np.array_equal(got, want)


@pytest.mark.parametrize("count", [100, 20_000, 300_000, 3_000_000])
def test_compiled_functions(count: int) -> None:
    B = np.random.default_rng(6).random(count) < 0.5
    programs = [lambda b: b.any(), lambda b: b.all(), lambda b: b.min(), lambda b: b.reshape(-1, 20).any(1)]
    for program in programs:
        f = tw.jit(program)
        for _ in range(4):
            assert np.array_equal(np.asarray(f(tw.asarray(B))), program(B))


def test_tiles_of_large_arrays() -> None:
    B = np.zeros((3000, 2000), bool)
    B[7, 9] = True
    b = tw.asarray(B)
    for some in (
        lambda b: (b.any(), b.any(1)),
        lambda b: (b.max(), b.max(1), b.sum()),
        lambda b: (b.any(1).sum(), b.all()),
        lambda b: (b.all(0), b.any(), b.argmax(1)),
    ):
        for got, want in zip(tw.compute(*some(b)), some(B), strict=True):
            assert got.dtype == want.dtype and np.array_equal(got, want)


@pytest.mark.parametrize("byte", [1, 2, 128, 255])
def test_bytes_that_are_not_one(byte: int) -> None:
    raw = np.zeros((50, 130), np.uint8)
    raw[3, 5] = raw[7] = byte
    B = raw.view(bool)
    with tw.config(eager_bytes=0):
        some, every = tw.compute(tw.asarray(B).any(1), tw.asarray(B).all(1))
    assert np.array_equal(some.view("u1"), raw.any(1)) and np.array_equal(every.view("u1"), raw.all(1))


def test_which_kernels() -> None:
    def of(reduce: str | None, *body: Instr) -> Kernel:
        return Kernel(("bool",), (), body, (Output(len(body), reduce),), (True,))

    assert in_bytes(of("logical_or")).inputs == ("uint8",)
    assert in_bytes(of("add", Instr("cast", (0,), "int64"))).inputs == ("uint8",)
    for other in (
        of(None),
        of("add", Instr("cast", (0,), "float64")),
        of("logical_or", Instr("logical_not", (0,), "bool")),
    ):
        assert in_bytes(other) is other
