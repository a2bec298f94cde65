"""Reductions by key: values against NumPy's ufunc.at, the same bits for any number of threads and width."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from tests.conftest import Retune, Some
from tests.kernel.support import ND, WIDTHS, alike, call, empty_outs, meaning, numbers, same_bits, views
from tilewise.backend import llvm, threads
from tilewise.kernel import native_support as native
from tilewise.kernel.loops import Instr, Kernel, Output

AXES = [(True, True), (True, False), (False, True)]


@pytest.fixture(autouse=True)
def same_threads_after() -> Iterator[None]:
    before = threads.get_threads()
    yield
    threads.set_threads(before)


def bucket(op: str, dtype: str, reduced: tuple[bool, ...]) -> Kernel:
    return Kernel((dtype, "int64"), (), (), (Output(0, op, key=1),), reduced)


def keys_for(shape: tuple[int, int], buckets: int) -> list[ND]:
    """Keys along either dim or both, some of them outside."""
    rng = np.random.default_rng(1)
    return [rng.integers(-2, buckets + 2, s) for s in ((shape[0], 1), (shape[1],), shape)]


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("op", "dtype"), sorted(native._REDUCTIONS))
def test_every_reduction(op: str, dtype: str, width: int | None, some: Some) -> None:
    assert native.supports_bucket(op, dtype)
    x = numbers(dtype, (60, 37), top=1 if op == "multiply" else 20)
    for keys, reduced in some(itertools.product(keys_for(x.shape, 5), AXES)):
        kernel = bucket(op, dtype, reduced)
        (got,), (want,) = call(kernel, x.shape, [x, keys], width=width), meaning(kernel, x.shape, [x, keys])
        assert same_bits(got, want)


@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (30, 1), (5000, 3), (3, 5000), (300, 300), (70_000, 2)])
@pytest.mark.parametrize("buckets", [1, 3, 100])
def test_shapes_and_orders(shape: tuple[int, int], buckets: int, some: Some) -> None:
    for x, keys, reduced in some(itertools.product(views(numbers("float64", shape)), keys_for(shape, buckets), AXES)):
        kernel = bucket("add", "float64", reduced)
        (got,) = call(kernel, shape, [x, keys], buckets=buckets)
        assert same_bits(got, meaning(kernel, shape, [x, keys], buckets)[0])  # sums of whole numbers do not round


@pytest.mark.quick_code
@pytest.mark.parametrize("reduced", AXES)
def test_same_bits_for_any_threads_and_width(reduced: tuple[bool, bool], retune: Retune) -> None:
    retune(split_at_ns=0, part_ns=1)
    x = np.random.default_rng(0).normal(size=(40_000, 7))
    kernel = Kernel(
        ("float64", "int64"), (), (Instr("square", (0,), "float64"), Instr("exp", (0,), "float64"),
                                   Instr("add", (2, 3), "float64"), Instr("const:1", (), "int64")),
        (Output(2, "add", key=1), Output(4, "add", key=1), Output(3), Output(5, "add", key=1)), reduced,
    )  # fmt: skip
    for keys in keys_for(x.shape, 5):
        results = []
        for count in (1, 2, 5):
            threads.set_threads(count)
            results.append(call(kernel, x.shape, [x, keys]))
        results += [call(kernel, x.shape, [x, keys], width=w) for w in alike(None)]
        for other in results[1:]:
            assert all(same_bits(a, b) for a, b in zip(results[0], other, strict=True))
        for got, want in zip(results[0], meaning(kernel, x.shape, [x, keys]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("buckets", [60_000, 140_001])
def test_many_buckets_have_two_chunks_and_are_merged_in_parts(buckets: int) -> None:
    x, keys = np.random.default_rng(0).normal(size=500_000), np.random.default_rng(1).integers(-1, buckets + 1, 500_000)
    kernel = bucket("add", "float64", (True,))
    results = []
    for count in (1, 2, 3):
        threads.set_threads(count)
        results += call(kernel, x.shape, [x, keys], buckets=buckets)
    assert all(same_bits(results[0], other) for other in results[1:])
    np.testing.assert_allclose(results[0], meaning(kernel, x.shape, [x, keys], buckets)[0], rtol=1e-11, atol=1e-12)


def test_counts_are_a_histogram() -> None:
    x = np.random.default_rng(0).normal(size=100_000)
    kernel = Kernel(
        ("float64",), ("float64", "float64"),
        (Instr("subtract", (0, 1), "float64"), Instr("multiply", (3, 2), "float64"), Instr("floor", (4,), "float64"),
         Instr("cast", (5,), "int64"), Instr("const:1", (), "int64")),
        (Output(7, "add", key=6),), (True,),
    )  # fmt: skip
    (got,) = call(kernel, x.shape, [x], [-2.0, 8.0], buckets=32)
    assert (got == np.histogram(x, 32, (-2, 2))[0]).all()


def test_outputs_of_different_sizes_and_orders() -> None:
    x, keys = numbers("float64", (500, 6)), np.arange(500)[:, None] % 7
    kernel = Kernel(
        ("float64", "int64"), (), (Instr("const:1", (), "int32"),),
        (Output(0, "add", key=1), Output(2, "add", key=1)), (True, False),
    )  # fmt: skip
    outs = [np.empty((7, 6), order="F"), np.zeros((20, 12), np.int32)[::4, ::2]]
    llvm.compile(kernel)(x.shape, [x, keys], [], outs)
    want = np.zeros((7, 6))
    np.add.at(want, keys[:, 0], x)
    assert same_bits(np.ascontiguousarray(outs[0]), want)
    assert (outs[1] == np.bincount(keys[:, 0], minlength=7)[:5, None]).all()


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_empty(shape: tuple[int, int]) -> None:
    for op, value in (("add", 0.0), ("minimum", np.inf)):
        kernel = bucket(op, "float64", (True, False))
        (got,) = call(kernel, shape, [np.empty(shape), np.zeros((shape[0], 1), np.int64)])
        assert (got == value).all() and got.shape == empty_outs(kernel, shape)[0].shape


def test_no_buckets() -> None:
    kernel = bucket("add", "float64", (True, False))
    assert call(kernel, (9, 3), [np.ones((9, 3)), np.zeros((9, 1), np.int64)], buckets=0)[0].shape == (0, 3)


def test_beside_a_plain_reduction() -> None:
    """One kernel with both runs on NumPy."""
    x, keys = numbers("float64", (50, 3)), np.arange(50)[:, None] % 5
    kernel = Kernel(("float64", "int64"), (), (), (Output(0, "add", key=1), Output(0, "add")), (True, False))
    by_key, total = call(kernel, x.shape, [x, keys])
    assert same_bits(total, x.sum(0)) and same_bits(by_key.sum(0), x.sum(0))
