"""Reductions: values against NumPy, errors against math.fsum, the same bits for any number of threads and width."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.conftest import Retune, Some
from tests.kernel.support import ND, RUNNABLE, WIDTHS, alike, call, reduction, same_bits
from tilewise import rounding
from tilewise.backend import threads
from tilewise.backend.llvm.compile.cpu import host_machine, level
from tilewise.backend.llvm.loops import geometry
from tilewise.kernel import interpret
from tilewise.kernel import native_support as native
from tilewise.kernel.loops import Instr, Kernel, Output

SHAPES = [(1, 1), (1, 5000), (5000, 1), (7, 13), (300, 700), (3, 20_000), (20_000, 3), (2000, 100), (64, 64), (513, 31)]
AXES = [(True, True), (True, False), (False, True)]


@pytest.fixture(autouse=True)
def same_threads_after() -> Iterator[None]:
    before = threads.get_threads()
    yield
    threads.set_threads(before)


def layouts(shape: tuple[int, int]) -> list[ND]:
    rng = np.random.default_rng(0)
    rows, columns = shape
    return [
        rng.normal(size=shape),
        np.asfortranarray(rng.normal(size=shape)),
        rng.normal(size=(2 * rows, 2 * columns))[::2, ::2],
        rng.normal(size=shape)[::-1],
    ]


def bound(x: ND, axes: tuple[int, ...]) -> ND:
    """The error of pairwise summation with NumPy's blocks: about (19 + log2(n / 128)) roundings of |x|'s sum."""
    n = math.prod(x.shape[a] for a in axes)
    return np.asarray((24 + math.log2(max(n, 1))) * np.finfo(x.dtype).eps / 2 * np.abs(x).sum(axes))


@pytest.mark.parametrize("reduced", AXES)
@pytest.mark.parametrize("shape", SHAPES)
def test_sum_error(shape: tuple[int, int], reduced: tuple[bool, bool]) -> None:
    axes = tuple(d for d in (0, 1) if reduced[d])
    for x in layouts(shape):
        (got,) = call(reduction("add", "float64", reduced), shape, [x])
        moved = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(got.shape + (-1,))
        exact = np.array([math.fsum(row) for row in moved.reshape(-1, moved.shape[-1])]).reshape(got.shape)
        assert (np.abs(got - exact) <= bound(x, axes)).all()


@pytest.mark.quick_code
@pytest.mark.parametrize("reduced", AXES)
@pytest.mark.parametrize("shape", SHAPES)
def test_same_bits_for_any_threads_and_width(
    shape: tuple[int, int], reduced: tuple[bool, bool], retune: Retune, some: Some
) -> None:
    retune(split_at_ns=0, part_ns=1)
    kernel = Kernel(
        ("float64", "float64"), ("float64",),
        (Instr("subtract", (0, 1), "float64"), Instr("multiply", (3, 2), "float64"), Instr("exp", (4,), "float64"),
         Instr("log1p", (5,), "float64")),
        (Output(4, "add"), Output(6, "add"), Output(3), Output(4, "maximum")), reduced,
    )  # fmt: skip
    for x in some(layouts(shape)):
        results = []
        for count in (1, 2, 5):
            threads.set_threads(count)
            results.append(call(kernel, shape, [x, x[:1]], [0.25]))
        retune(abreast_at_ns=0)
        threads.set_threads(3)
        results.append(call(kernel, shape, [x, x[:1]], [0.25]))
        for width in alike(None):
            results.append(call(kernel, shape, [x, x[:1]], [0.25], width=width))
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                assert same_bits(a, b)
        want = [np.empty_like(r) for r in results[0]]
        interpret.run(kernel, shape, [x, x[:1]], [0.25], want)
        assert same_bits(results[0][2], want[2]) and same_bits(results[0][3], want[3])
        np.testing.assert_allclose(results[0][0], want[0], atol=1e-9)
        np.testing.assert_allclose(results[0][1], want[1], rtol=1e-12)


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("op", "dtype"), sorted(native._REDUCTIONS))
def test_every_reduction(op: str, dtype: str, width: int | None) -> None:
    rng = np.random.default_rng(0)
    low = 1 if op == "multiply" else 0
    x = rng.integers(low, 2 if op == "multiply" or dtype == "bool" else 100, (70, 90)).astype(dtype)
    if dtype.startswith("float") or dtype.startswith("int"):
        x[::3] *= -1 if dtype != "bool" else 1
    for reduced in AXES:
        axes = tuple(d for d in (0, 1) if reduced[d])
        (got,) = call(reduction(op, dtype, reduced), x.shape, [x], width=width)
        want = getattr(np, op).reduce(x, axis=axes, dtype=x.dtype)
        assert same_bits(got, np.asarray(want)), (reduced, got, want)


@pytest.mark.parametrize("op", ["minimum", "maximum"])
def test_nan_wins(op: str) -> None:
    x = np.random.default_rng(0).normal(size=(100, 50))
    x[3, 7] = np.nan
    for reduced in AXES:
        axes = tuple(d for d in (0, 1) if reduced[d])
        (got,) = call(reduction(op, "float64", reduced), x.shape, [x])
        assert same_bits(got, np.asarray(getattr(np, op).reduce(x, axis=axes)))


def test_negative_zero_sums_as_numpy_does() -> None:
    for n in (1, 3, 5000):
        x = np.full(n, -0.0)
        (got,) = call(reduction("add", "float64", (True,)), (n,), [x])
        assert np.signbit(got) == np.signbit(x.sum())


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (0, 0)])
def test_empty(shape: tuple[int, ...]) -> None:
    for reduced in itertools.product([True, False], repeat=len(shape)):
        if any(reduced):
            for op, value in (("add", 0.0), ("multiply", 1.0)):
                (got,) = call(reduction(op, "float64", reduced), shape, [np.empty(shape)])
                assert (got == value).all()


@pytest.mark.parametrize("reduced", [r for r in itertools.product([True, False], repeat=4) if any(r)])
def test_four_dims(reduced: tuple[bool, ...]) -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(6, 7, 8, 10))
    axes = tuple(d for d in range(4) if reduced[d])
    for x in (base, base.transpose(3, 1, 0, 2), base[::2, ::-1, ::2, ::3], base[:, :1, :, :1]):
        kernel = Kernel(("float64", "float64"), (), (Instr("multiply", (0, 1), "float64"),),
                        (Output(2, "add"), Output(2)), reduced)  # fmt: skip
        y = rng.normal(size=x.shape[-1])
        total, product = call(kernel, x.shape, [x, y])
        assert same_bits(product, np.ascontiguousarray(x * y))
        np.testing.assert_allclose(total, (x * y).sum(axes), rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [w for w in RUNNABLE if w != 0])
@pytest.mark.parametrize(("shape", "reduced", "two"), [
    ((64,), (True,), ((0,), (32,))), ((5, 64), (False, True), ((3, 0), (3, 32))),
    ((40, 12), (True, False), ((0, 7), (16, 7))), ((100_000,), (True,), ((4096,), (4096 + 64,))),
])  # fmt: skip
def test_products_are_not_rounded_before_they_are_added(
    shape: tuple[int, ...], reduced: tuple[bool, ...], two: tuple[Any, Any], width: int | None
) -> None:
    """Where a CPU multiplies and adds at once; the two points are added to the same lane."""
    a, b = np.zeros(shape), np.zeros(shape)
    a[two[0]], a[two[1]] = -1, 1 + 2.0**-30
    b[two[0]], b[two[1]] = 1, 1 + 2.0**-30
    product = Kernel(("float64", "float64"), (), (Instr("multiply", (0, 1), "float64"),), (Output(2, "add"),), reduced)
    (got,) = call(product, shape, [a, b], width=width)
    fuses = (host_machine() if width is None else level(width)).fuses
    assert got.sum() == (2.0**-29 + 2.0**-60 if fuses else 2.0**-29)


@pytest.mark.parametrize(
    ("shape", "reduced"), [((1000, 2), (False, True)), ((2, 1000), (True, False)), ((2,), (True,))]
)
def test_two_products_cancel_as_rounded_numbers(shape: tuple[int, ...], reduced: tuple[bool, ...]) -> None:
    p = np.random.default_rng(2).normal(size=shape)
    first, second = (0, 1) if len(shape) == 1 else ((slice(None), 0), (slice(None), 1)) if reduced[1] else (0, 1)
    q = np.empty_like(p)
    q[first], q[second] = -p[second], p[first]
    product = Kernel(("float64", "float64"), (), (Instr("multiply", (0, 1), "float64"),), (Output(2, "add"),), reduced)
    (got,) = call(product, shape, [p, q])
    assert not got.any()


@pytest.mark.parametrize("size", [262_143, 262_144, 300_001, 2_100_000])
def test_chunks_of_long_rows_get_longer(size: int, retune: Retune) -> None:
    """Few partial results are left to merge, and sums are as exact, for any number of threads."""
    x = np.random.default_rng(1).normal(size=size) * 1e6 + 1
    retune(split_at_ns=0, part_ns=1)
    found = []
    for n in (1, 2, 5):
        threads.set_threads(n)
        found.append(call(reduction("add", "float64", (True,)), (size,), [x])[0])
    assert same_bits(found[0], found[1]) and same_bits(found[0], found[2])
    assert abs(found[0] - math.fsum(x)) <= bound(x, (0,))
    nest = geometry.reduce_nest(reduction("add", "float64", (True,)), [geometry.Dim(size, True, (8, 0))], (8, 8), 8)
    assert nest.partials[0].shape[1] <= 2 * rounding.ROW_CHUNKS


def test_mixed_dtypes_in_one_pass() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 37)).astype(np.float32)
    kernel = Kernel(
        ("float32",), (),
        (Instr("cast", (0,), "float64"), Instr("const:0", (), "float32"), Instr("greater", (0, 2), "bool"),
         Instr("cast", (3,), "int64")),
        (Output(0, "add"), Output(1, "add"), Output(4, "add"), Output(3, "logical_and"), Output(3)), (True, False),
    )  # fmt: skip
    single, double, count, every, mask = call(kernel, x.shape, [x])
    assert (np.abs(single - x.sum(0, dtype=np.float64)) <= bound(x, (0,))).all()
    np.testing.assert_allclose(double, x.sum(0, dtype=np.float64), rtol=1e-13, atol=1e-12)
    assert (count == (x > 0).sum(0)).all() and (every == (x > 0).all(0)).all() and (mask == (x > 0)).all()
