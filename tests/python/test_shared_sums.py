"""Integers that loops add up, in parts by several threads: Python's sums, or Python's loop where a part overflows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.kernel.test_program_passes import program_of
from tests.python.conftest import ended, same
from tilewise import tuning
from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import statements


def total(x):
    s = 5
    for v in x:
        s += v
    return s


def of_python(x):
    s = 0
    for i in range(len(x)):
        s += int(x[i]) * 3
    return s


def counted(x):
    even = odd = 0
    for v in x:
        if v % 2 == 0:
            even += 1
        else:
            odd -= int(v)
    return even, odd


def cells(x):
    rows, n = x.reshape(-1, 5), 0
    for i in range(rows.shape[0]):
        for j in range(5):
            if rows[i, j] > 0:
                n = n + 1
    return n, i


def beside_stores(x):
    out, n = np.zeros(len(x)), 10
    for i in range(len(x)):
        out[i] = x[i] / 3
        n = 2 + n
        last = x[i]
    return out, n, last


def checked(x):
    s = 0
    for i in range(len(x)):
        s += int(x[i]) // int(x[i] - 7)
    return s


def to_caller(x, out):
    s = 0
    for i in range(len(x)):
        s += int(x[i])
        out[i] = x[i]
    return s


def running(x):
    out, s = np.zeros(len(x)), 0
    for i in range(len(x)):
        s += int(x[i])
        out[i] = s
    return out


def until(x):
    s = 0
    for i in range(len(x)):
        s += int(x[i])
        if s > 20:
            break
    return s


def doubled(x):
    s = 1
    for v in x:
        s += int(v) + s
    return s


def other_operation(x):
    s = 1
    for v in x:
        s += int(v)
        s *= 2
    return s


def floats(x):
    s = 0.0
    for v in x:
        s += v / 3
    return s


X = np.random.default_rng(0).integers(-9, 9, 60)
X[X == 7] = 1
LARGE = np.full(60, 1 << 61)
UP_AND_DOWN = np.where(np.arange(60) < 30, 1 << 60, -(1 << 60))  # the sum fits, sums on the way do not
ZIGZAG = np.where(np.arange(60) % 2 == 0, (1 << 63) - 1, -(1 << 63))
DIVIDES = X.copy()
DIVIDES[41] = 7
INPUTS = {
    "X": X, "LARGE": LARGE, "UP_AND_DOWN": UP_AND_DOWN, "ZIGZAG": ZIGZAG, "DIVIDES": DIVIDES, "FIVE": X[:5],
    "NONE": X[:0],
}  # fmt: skip
SHARED = [total, of_python, counted, cells, beside_stores, checked]
ALONE = [to_caller, running, until, doubled, other_operation, floats]


def args_of(function: Callable[..., Any], x: Any) -> list[Any]:
    return [x.copy(), np.zeros(len(x))] if function is to_caller else [x.copy()]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    with tw.config(threads=3), tuning.using(replace(tuning.tuned(), loop_share_units=-1)):
        yield


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("function", [*SHARED, *ALONE], ids=lambda f: f.__name__)
def test_results_and_errors_are_pythons(function: Callable[..., Any], name: str) -> None:
    if function is to_caller and "A" in name:  # what was written is not undone: OverflowError
        return
    compiled = tw.jit(function)
    with np.errstate(all="ignore"):
        for _ in range(3):
            ours, theirs = args_of(function, INPUTS[name]), args_of(function, INPUTS[name])
            assert same(ended(compiled, ours), ended(function, theirs))
            assert all(map(same, ours, theirs))


@pytest.mark.parametrize("function", [*SHARED, *ALONE], ids=lambda f: f.__name__)
def test_which_sums_are_shared(function: Callable[..., Any]) -> None:
    program = program_of(function, *args_of(function, X))
    found = [s for s in statements(program.body) if isinstance(s, ir.For) and s.sums]
    assert bool(found) == (function in SHARED)
    assert all(s.parallel and s.restarts for s in found)
