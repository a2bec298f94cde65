"""Subscripts on a ring, `x[(i + 1) % n]`: no division, and Python's remainders."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.kernel.test_program_passes import program_of
from tests.python.conftest import ended, same
from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import expressions, statements


def neighbours(x):
    n = len(x)
    out = np.zeros((n, 3))
    for i in range(n):
        out[i, 0] = x[(i + 1) % n]
        out[i, 1] = x[(i - 1) % n]
        out[i, 2] = x[i % n]
    return out


def torus(x):
    n, m = x.shape
    out = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            for a in range(-1, 2):
                for b in range(-1, 2):
                    out[i, j] += x[(i + a) % n, (j + b) % m]
    return out


def up_to_the_end(x):
    n, s = len(x), 0.0
    for i in range(n + 1):
        s = 2 * s + x[i % n]
    return s


def further(x):
    n, s = len(x), 0.0
    for i in range(n):
        s = 2 * s + x[(i + 2) % n] - x[(i - 2) % n]
    return s


def of_argument(x, n):
    s = 0
    for i in range(3):
        s = 10 * s + (i + 1) % n + (i - 1) % n
    return s


def below_argument(x, n):
    s = 0
    for i in range(n):
        s = 3 * s + (i + 1) % n - (i - 1) % n
    return s


VECTORS = [(np.arange(float(n)),) for n in (0, 1, 2, 3, 7)]
PLANES = [(np.arange(float(n * m)).reshape(n, m),) for n, m in ((0, 3), (1, 1), (1, 4), (2, 1), (3, 5))]
NUMBERS = [(np.zeros(3), n) for n in (-3, -1, 0, 1, 2, 3, 5)]
CALLS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    *((f, args) for f in (neighbours, up_to_the_end, further) for args in VECTORS),
    *((torus, args) for args in PLANES),
    *((f, args) for f in (of_argument, below_argument) for args in NUMBERS),
]


@pytest.mark.parametrize(("function", "args"), CALLS)
def test_values_and_errors_are_pythons(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    compiled = tw.jit(function, strict=True)
    for _ in range(2):
        assert same(ended(compiled, args), ended(function, args))


def divides(function: Callable[..., Any], *args: Any) -> bool:
    """Whether remainders are left in a program."""
    every = [e for s in statements(program_of(function, *args).body) for e in expressions(s)]
    return any(isinstance(e, ir.Op) and e.fn == "remainder" for e in every)


@pytest.mark.parametrize(
    ("function", "args", "left"),
    [
        (neighbours, VECTORS[4], False),
        (torus, PLANES[4], True),  # its offsets are a loop's
        (below_argument, NUMBERS[6], False),
        (further, VECTORS[4], True),
        (of_argument, NUMBERS[6], True),
        (up_to_the_end, VECTORS[4], True),  # of nothing
    ],
)
def test_which_remainders_are_choices(function: Callable[..., Any], args: tuple[Any, ...], left: bool) -> None:
    assert divides(function, *args) == left
