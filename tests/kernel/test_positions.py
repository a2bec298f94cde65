"""argmin and argmax: the same positions as NumPy's, whatever the dtype, order in memory, threads and width."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from tests.conftest import Retune, Some
from tests.kernel.support import ND, WIDTHS, call, meaning, numbers, reduction, views
from tilewise.backend import threads
from tilewise.kernel import native_support as native
from tilewise.kernel.loops import ARGS, Instr, Kernel, Output

DTYPES = (*native.FLOATS, *native.INTS, "bool")
AXES = [(True, True), (True, False), (False, True)]


@pytest.fixture(autouse=True)
def same_threads_after() -> Iterator[None]:
    before = threads.get_threads()
    yield
    threads.set_threads(before)


def check(kernel: Kernel, x: ND, width: int | None = None) -> None:
    for got, want in zip(call(kernel, x.shape, [x], width=width), meaning(kernel, x.shape, [x]), strict=True):
        assert got.dtype == want.dtype and (got == want).all(), (x.shape, x.strides, kernel)


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: str, width: int | None, some: Some) -> None:
    assert all(native.supports_arg(op, dtype) for op in ARGS)
    for x in some(views(numbers(dtype, (70, 53)))):
        for op, reduced in itertools.product(ARGS, AXES):
            check(reduction(op, dtype, reduced), x, width)


@pytest.mark.quick_code
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (3, 5000), (5000, 3), (40, 600), (2, 20_000), (20_000, 2)])
def test_every_shape_by_any_threads(shape: tuple[int, int], retune: Retune, some: Some) -> None:
    retune(split_at_ns=0, part_ns=1)
    for count, x in some(itertools.product((1, 2, 5), views(numbers("float64", shape, top=1000)))):
        threads.set_threads(count)
        for op, reduced in itertools.product(ARGS, AXES):
            check(reduction(op, "float64", reduced), x)


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", ARGS)
def test_awkward_floats(op: str, width: int | None) -> None:
    rng = np.random.default_rng(0)
    for values in ([np.inf], [-np.inf], [np.nan], [np.inf, -np.inf], [np.nan, np.inf, 1.0], [0.0, -0.0]):
        for size in (1, 7, 40, 5000):
            x = rng.choice(values, (size, 3))
            for reduced in AXES:
                check(reduction(op, "float64", reduced), x, width)


@pytest.mark.parametrize("dtype", ["int8", "uint64", "int64"])
def test_the_ends_of_integers(dtype: str) -> None:
    info = np.iinfo(dtype)
    for value in (info.min, info.max):
        x = np.full((50, 50), value, dtype)
        for op, reduced in itertools.product(ARGS, AXES):
            check(reduction(op, dtype, reduced), x)


@pytest.mark.quick_code
@pytest.mark.parametrize("reduced", [r for r in itertools.product([True, False], repeat=4) if any(r)])
def test_positions_in_four_dims(reduced: tuple[bool, ...]) -> None:
    base = numbers("float32", (6, 7, 8, 10))
    for x in (base, base.transpose(3, 1, 0, 2), base[::2, ::-1, ::2, ::3], base[:, :1, :, :1]):
        check(reduction("argmin", "float32", reduced), x)


def test_with_other_outputs() -> None:
    x = numbers("float64", (300, 40))
    for reduced in AXES:
        kernel = Kernel(
            ("float64",), (), (Instr("square", (0,), "float64"), Instr("cast", (0,), "int8")),
            (Output(1, "argmax"), Output(1, "maximum"), Output(2, "argmin"), Output(1), Output(0, "argmin")), reduced,
        )  # fmt: skip
        check(kernel, x)


def test_of_nothing() -> None:
    with pytest.raises(ValueError, match="attempt to get argmin of an empty sequence"):
        call(reduction("argmin", "float64", (True, False)), (0, 3), [np.empty((0, 3))])
    assert call(reduction("argmin", "float64", (False, True)), (0, 3), [np.empty((0, 3))])[0].shape == (0,)
