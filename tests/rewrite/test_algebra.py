"""Algebra that keeps every bit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.rewrite.support import names, recorded

FLOATS = np.array([0.0, -0.0, 1.5, np.nan, np.inf, -np.inf, 5e-324])
INTS = np.array([0, 1, -1, 2**31 - 1, -(2**31), 7, 8], np.int32)

FIRES: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda x: x * 1, FLOATS),
    (lambda x: 1.0 * x, FLOATS),
    (lambda x: x / 1, FLOATS),
    (lambda x: x * 1.0, INTS),  # the cast stays
    (lambda x: x - 0, FLOATS),
    (lambda x: x + 0, INTS),
    (lambda x: 0 | x, INTS),
    (lambda x: x ^ 0, INTS),
    (lambda x: x << 0, INTS),
    (lambda x: np.negative(np.negative(x)), FLOATS),
    (lambda x: np.negative(np.negative(x)), INTS),
    (lambda x: ~(~x), INTS),
    (lambda x: x.astype(np.int64).astype(np.int32), INTS),
    (lambda x: x.astype(np.int64).astype(np.float32), INTS),
    (lambda x: x.astype(np.float64).astype(np.float32), FLOATS.astype(np.float32)),
    (lambda x: x.T.reshape(2, 3).reshape(6), np.arange(6).reshape(2, 3)),
]
STAYS: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda x: x + 0.0, FLOATS),  # -0.0 + 0.0 is 0.0
    (lambda x: 0.0 - x, FLOATS),
    (lambda x: 1 / x, FLOATS[2:]),
    (lambda x: 1 - x, INTS),
    (lambda x: np.negative(np.absolute(x)), FLOATS),
    (lambda x: x.astype(np.float32).astype(np.float64), FLOATS),  # loses bits
    (lambda x: x.astype(np.float64).astype(np.int64), np.array([2**62 + 1])),  # NumPy calls the first cast safe
    (lambda x: x.astype(np.int8).astype(np.int32), INTS),
    (lambda x: x.T.reshape(3, 2, order="F").reshape(6), np.arange(6).reshape(2, 3)),
]


def operators(program: Callable[[Any], Any], x: Any, rewrite: bool) -> list[str]:
    with recorded(rewrite=rewrite):
        return names(program(tw.array(x)))


@pytest.mark.parametrize(("program", "x"), FIRES)
def test_fires(program: Callable[[Any], Any], x: Any) -> None:
    assert len(operators(program, x, True)) < max(len(operators(program, x, False)), 2)


@pytest.mark.parametrize(("program", "x"), STAYS)
def test_stays(program: Callable[[Any], Any], x: Any) -> None:
    assert operators(program, x, True) == operators(program, x, False)


@pytest.mark.parametrize(("program", "x"), FIRES + STAYS)
def test_every_bit_is_numpys(program: Callable[[Any], Any], x: Any) -> None:
    with np.errstate(all="ignore"):
        want = program(x)
    with recorded():
        y = program(tw.array(x))
        got = np.asarray(y)
    assert got.dtype == want.dtype and got.strides == want.strides and got.tobytes() == want.tobytes()


def test_a_result_has_memory_of_its_own() -> None:
    with recorded():
        x = tw.array(np.arange(3.0))
        y = x * 1
        tw.evaluate(y)
        x[0] = 5.0
        assert y[0] == 0.0
        y[1] = 9.0
        assert x[1] == 1.0


def test_an_update_of_what_is_the_same_leaves_the_other_alone() -> None:
    with recorded():
        x = tw.array(np.arange(3.0))
        y = x * 1
        y[1:] = 9.0
        tw.evaluate(y)
        assert np.array_equal(np.asarray(x), np.arange(3.0))
        assert np.array_equal(np.asarray(y), [0.0, 9.0, 9.0])


def test_a_view_times_one_has_memory_of_its_own() -> None:
    a = np.arange(62.0).reshape(2, 31)
    with tw.session(engine="virtual", workers=2), tw.config(eager_bytes=0):
        made = np.asarray(1 * (tw.asarray(a) * 2).T)
    assert made.strides == (1 * (a * 2).T).strides


def test_a_view_cast_there_and_back_has_memory_of_its_own() -> None:
    a = np.arange(62).reshape(2, 31) % 3 == 0
    with tw.session(engine="virtual", workers=2), tw.config(eager_bytes=0):
        made = np.asarray(tw.asarray(a).T.astype("i2").astype("?"))
    want = a.T.astype("i2").astype("?")
    assert made.strides == want.strides and np.array_equal(made, want)
