"""Running reductions: values against ufunc.accumulate, errors no larger, the same bits for any threads and width."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from tests.conftest import Retune
from tests.kernel.support import ND, WIDTHS, alike, call, meaning, numbers, same_bits, views
from tilewise.backend import threads
from tilewise.kernel import native_support as native
from tilewise.kernel.loops import Instr, Kernel, Output

AXES = [(True, False), (False, True)]


@pytest.fixture(autouse=True)
def same_threads_after() -> Iterator[None]:
    before = threads.get_threads()
    yield
    threads.set_threads(before)


def scan(op: str, dtype: str, reduced: tuple[bool, ...]) -> Kernel:
    return Kernel((dtype,), (), (), (Output(0, op, scan=True),), reduced)


def check(kernel: Kernel, x: ND, width: int | None = None) -> None:
    for got, want in zip(call(kernel, x.shape, [x], width=width), meaning(kernel, x.shape, [x]), strict=True):
        assert same_bits(got, want), (x.shape, x.strides, kernel)


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("op", "dtype"), sorted(row for row in native._REDUCTIONS if native.supports_scan(*row)))
def test_every_reduction(op: str, dtype: str, width: int | None) -> None:
    top = 1 if op == "multiply" and dtype.startswith("float") else 20  # whole numbers: sums do not round
    x = numbers(dtype, (45, 67), top=top)
    for reduced in AXES:
        check(scan(op, dtype, reduced), x + np.array(x == 0).astype(dtype) if op == "multiply" else x, width)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (7, 8), (3, 5000), (5000, 3), (40, 600), (100, 2000)])
def test_shapes_and_orders(shape: tuple[int, int]) -> None:
    for x, reduced in itertools.product(views(numbers("float64", shape)), AXES):
        check(scan("add", "float64", reduced), x)
        check(scan("minimum", "float64", reduced), x)


@pytest.mark.quick_code
@pytest.mark.parametrize("n", [1, 7, 8, 9, 4096, 65_536, 65_537, 300_001])
@pytest.mark.parametrize("width", WIDTHS)
def test_lengths(n: int, width: int | None) -> None:
    for dtype in ("int8", "int64", "float32"):
        check(scan("add", dtype, (True,)), numbers(dtype, (n,), top=1), width)
        check(scan("maximum", dtype, (True,)), numbers(dtype, (n,), top=100), width)


def test_signs_of_zeros_and_nan() -> None:
    for n in (1, 5, 70_000):
        zeros = np.full(n, -0.0)
        check(scan("add", "float64", (True,)), zeros)
        zeros[n // 2] = 0.0
        check(scan("add", "float64", (True,)), zeros)
        zeros[n // 3] = np.nan
        for op in ("add", "minimum", "maximum"):
            check(scan(op, "float64", (True,)), zeros)
        zeros[: n // 2] = np.inf
        check(scan("add", "float64", (True,)), zeros)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_errors_are_no_larger_than_in_sequence(dtype: str) -> None:
    x = np.random.default_rng(0).normal(size=500_000).astype(dtype)
    exact = np.cumsum(x.astype(np.longdouble))
    (got,) = call(scan("add", dtype, (True,)), x.shape, [x])
    assert np.abs(got - exact).max() <= np.abs(np.cumsum(x) - exact).max()


@pytest.mark.parametrize("shape", [(200_001,), (3, 70_000), (70_000, 3)])
def test_same_bits_for_any_threads_and_width(shape: tuple[int, ...], retune: Retune) -> None:
    retune(split_at_ns=0, part_ns=1, scan_part_bytes=1)
    x = np.random.default_rng(0).normal(size=shape)
    reduced = [tuple(d == axis for d in range(len(shape))) for axis in range(len(shape))]
    for dims in reduced:
        kernel = Kernel(
            ("float64",), ("float64",), (Instr("multiply", (0, 1), "float64"), Instr("square", (2,), "float64")),
            (Output(2, "add", scan=True), Output(3), Output(3, "add", scan=True)), dims,
        )  # fmt: skip
        results = []
        for count in (1, 2, 5):
            threads.set_threads(count)
            results.append(call(kernel, shape, [x], [0.3]))
        results += [call(kernel, shape, [x], [0.3], width=w) for w in alike(None)]
        for other in results[1:]:
            assert all(same_bits(a, b) for a, b in zip(results[0], other, strict=True))


def test_in_place() -> None:
    for shape, axis in (((300_001,), 0), ((300, 70), 0), ((300, 70), 1)):
        x = numbers("float64", shape)
        want = np.cumsum(x, axis)
        call(scan("add", "float64", tuple(d == axis for d in range(len(shape)))), shape, [x], outs=[x])
        assert same_bits(x, want)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty(shape: tuple[int, ...]) -> None:
    kernel = scan("add", "float64", (True, *(False for _ in shape[1:])))
    assert call(kernel, shape, [np.empty(shape)])[0].shape == shape


@pytest.mark.parametrize("count", [1, 2, 5])
def test_turns_come_in_order(count: int) -> None:
    threads.set_threads(count)
    begun: list[int] = []
    turns: list[int] = []
    ended: list[int] = []
    threads.run_in_turn(begun.append, turns.append, ended.append, 200)
    assert turns == list(range(200)) and sorted(begun) == sorted(ended) == turns


def test_a_failed_turn_ends_the_launch() -> None:
    threads.set_threads(3)

    def turn(i: int) -> None:
        if i == 5:
            raise ValueError("turn 5")

    with pytest.raises(ValueError, match="turn 5"):
        threads.run_in_turn(lambda i: None, turn, lambda i: None, 50)


def test_an_interrupt_ends_the_launch() -> None:
    threads.set_threads(2)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        threads.run_in_turn(lambda i: time.sleep(0.01), lambda i: None, lambda i: None, 1000)
    timer.join()
    test_turns_come_in_order(2)


def test_large_arrays_at_any_alignment() -> None:
    """Outputs stored past the caches need aligned memory; what is not aligned must come out the same."""
    n = 2_500_000
    memory, x = np.zeros(n + 16), numbers("float64", (n,))
    want = np.cumsum(x)
    for shift in (0, 1, 8):
        memory[:] = 7
        out = memory[shift : shift + n]
        call(scan("add", "float64", (True,)), (n,), [x], outs=[out])
        assert same_bits(out, want) and (memory[:shift] == 7).all() and (memory[shift + n :] == 7).all()
