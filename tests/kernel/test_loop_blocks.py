"""Loops over slices, block of elements by block: which loops are, and that results and exceptions stay Python's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.kernel.test_loop_fusion import program_of
from tests.python.conftest import ended, same
from tilewise.kernel.program.ir import For
from tilewise.kernel.program.optimise.slices import blocks
from tilewise.kernel.program.walk import statements


def average(x, y, v):
    for k in range(1, x.shape[1]):
        y[:, k] = 0.25 * x[:, k] + 0.75 * y[:, k - 1]


def sweep(x, y, v):
    for k in range(1, x.shape[1] - 1):
        gain = 0.5 * (x[:, k + 1] + x[:, k - 1])
        y[:, k] = gain / (2.0 + y[:, k - 1])
        y[:, k] *= gain
    for k in range(x.shape[1] - 2, -1, -1):
        gain = v * y[:, k + 1]
        v[:] = gain
        y[:, k] -= gain


def from_the_end(x, y, v):
    for k in range(x.shape[1]):
        y[:, k] = x[:, k] + y[:, k - 1]  # the first reads the last column


def too_far(x, y, v):
    for k in range(x.shape[1]):
        v[:] = v + x[:, k]
        y[:, k] = x[:, k + 1] + v


def first_column(x, y, v):
    for k in range(1, x.shape[1]):
        gain = y[:, 0] * 0.5
        y[:, k] = x[:, k] + gain


def first_column_too(x, y, v):
    for k in range(x.shape[1]):  # the first k reads what it writes
        gain = y[:, 0] * 0.5
        y[:, k] = x[:, k] + gain


def along_rows(x, y, v):
    for k in range(x.shape[0]):
        y[k, :] = x[k, :] * 2.0


def neighbours(x, y, v):
    for k in range(1, x.shape[1]):
        y[1:, k] = y[:-1, k - 1] + x[1:, k]


def counter_is_kept(x, y, v):
    for k in range(x.shape[1]):
        y[:, k] = x[:, k] * 2.0
    return k


def total_is_carried(x, y, v):
    s = 0.0
    for k in range(x.shape[1]):
        s = s + 1.0
        y[:, k] = x[:, k] * s


# A function, and how many of its loops have a second form.
ROWS: list[tuple[Callable[..., Any], int]] = [
    (average, 1),
    (sweep, 2),
    (from_the_end, 1),
    (too_far, 1),
    (first_column, 1),
    (first_column_too, 1),
    (along_rows, 0),
    (neighbours, 0),
    (counter_is_kept, 0),
    (total_is_carried, 0),
]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of two elements are long enough, and three are a block."""
    monkeypatch.setattr(blocks, "LEAST", 2)
    monkeypatch.setattr(blocks, "BLOCK", 3)


@pytest.mark.parametrize(("f", "count"), ROWS, ids=[f.__name__ for f, _ in ROWS])
def test_which_loops_go_by_blocks(f: Callable[..., Any], count: int) -> None:
    program = program_of(f, np.ones((8, 5)), np.ones((8, 5)), np.ones(8))
    assert sum(isinstance(s, For) and s.name.startswith("$block") for s in statements(program.body)) == count


def arguments(shape: tuple[int, int], how: str) -> list[Any]:
    """Three arrays, in some way that a function is not written for."""
    x, y = np.linspace(-1.0, 2.0, shape[0] * shape[1]).reshape(shape), np.ones(shape)
    v = np.linspace(1.0, 2.0, shape[0])
    if how == "one array":
        y = x
    elif how == "reversed":
        y = x[::-1]
    elif how == "a column":
        v = x[:, 1]
    elif how == "columns side by side":
        x, y = np.asfortranarray(x), np.asfortranarray(y)
    elif how == "fewer columns":
        y = y[:, :-1].copy()
    elif how == "repeated":
        v = v[:1]
    elif how == "other length":
        v = v[:-1]
    return [x, y, v]


HOW = ["", "one array", "reversed", "a column", "columns side by side", "fewer columns", "repeated", "other length"]


@pytest.mark.parametrize("f", [f for f, _ in ROWS], ids=[f.__name__ for f, _ in ROWS])
def test_results_and_exceptions_are_pythons(f: Callable[..., Any]) -> None:
    compiled = tw.jit(f, strict=True)
    for native in (False, True) if f in (sweep, from_the_end, too_far) else (False,):
        with tw.config(native=native, threads=3):
            for shape in ((8, 5), (7, 2), (1, 4), (3, 1)):
                for how in HOW if shape == (8, 5) else [""]:
                    ours, plain = arguments(shape, how), arguments(shape, how)
                    found, expected = ended(compiled, ours), ended(f, plain)
                    assert same(found, expected), (shape, how, found, expected)
                    assert same(ours, plain), (shape, how)
