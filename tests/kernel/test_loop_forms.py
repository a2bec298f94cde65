"""Loops over rows: what their costs are estimated as, and sums that are done side by side."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.api.functions.source_call import SourceFunction
from tilewise.backend.llvm.program.loops.loop_cost import vectors
from tilewise.kernel.program.ir import For
from tilewise.kernel.program.walk import statements

X = np.arange(120.0).reshape(10, 12) / 7


def row(a, b):
    for j in range(a.shape[1]):
        b[0, j] = (a[0, j] + a[1, j]) / 3.0


def neighbours(a, b):
    for j in range(1, a.shape[1] - 1):
        b[0, j] = a[0, j - 1] - 2.0 * a[0, j] + a[0, j + 1]


def column(a, b):
    for i in range(a.shape[0]):
        b[i, 0] = a[i, 0]


def total(a, b):
    for j in range(a.shape[1]):
        b[0, 0] += a[0, j]


def carried(a, b):
    s = 0.0
    for j in range(a.shape[1]):
        s += a[0, j]
        b[0, j] = s


def chosen(a, b):
    for j in range(a.shape[1]):
        if a[0, j] > 1.0:
            b[0, j] = a[0, j]


def function(a, b):
    for j in range(a.shape[1]):
        b[0, j] = np.exp(a[0, j])


@pytest.mark.parametrize(
    ("f", "expected"),
    [(row, True), (neighbours, True), (column, False), (total, False), (carried, False), (chosen, False),
     (function, False)],
    ids=lambda v: getattr(v, "__name__", ""),
)  # fmt: skip
def test_what_counts_as_vectors(f: Callable[..., Any], expected: bool) -> None:
    program = SourceFunction(f).code_for((X.copy(), X.copy()), {}).made.program  # type: ignore[arg-type]
    loops = [s for s in statements(program.body) if isinstance(s, For)]
    assert [vectors(s) for s in loops] == [expected]


def tropical(x, y):
    out = np.zeros((x.shape[0], y.shape[1]))
    for i in range(x.shape[0]):
        for j in range(y.shape[1]):
            best = np.inf
            for k in range(x.shape[1]):
                best = min(best, x[i, k] + y[k, j])
            out[i, j] = best
    return out


def product(x, y):
    out = np.zeros((x.shape[0], y.shape[1]))
    for i in range(x.shape[0]):
        for j in range(y.shape[1]):
            s = 0.0
            for k in range(x.shape[1]):
                s += x[i, k] * y[k, j]
            out[i, j] = s
    return out


@pytest.mark.parametrize("f", [tropical, product], ids=lambda f: f.__name__)
def test_sums_side_by_side_have_pythons_bits(f: Callable[..., Any]) -> None:
    """For every length of what is left after sixteen and four at a time; NaN and zeros of both signs included."""
    rng = np.random.default_rng(5)
    compiled = tw.jit(f, strict=True)
    for n in (*range(24), 36, 53):
        x, y = rng.normal(size=(3, 7)), rng.normal(size=(7, n))
        x[1, 2], x[2, :] = np.nan, -0.0
        with np.errstate(all="ignore"):
            assert compiled(x, y).tobytes() == f(x, y).tobytes(), n
