"""Loops on several threads whose iterations may fail: they are run again, in order, and fail as Python's do."""

import operator
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


def divided(x, by):
    out = np.empty(len(x))
    for i in range(len(x)):
        s = 0.0
        for k in range(3):
            s += x[i] + k
        out[i] = s / int(by[i])
    return out


def gathered(x, at):
    out = np.zeros(len(at))
    for i in range(len(at)):
        for k in range(2):
            out[i] += x[at[i]] * k
    return out


def raising(x, most):
    out = np.empty(len(x))
    for i in range(len(x)):
        for k in range(3):
            out[i] = x[i] + k
        if x[i] > most:
            raise ValueError(f"too large: {i}")
    return out


def wrapping(x):
    out = np.empty(len(x))
    for i in range(len(x)):
        for k in range(2):
            out[i] = x[i - 1] + k
    return out


def last(x, by):
    out = np.empty(len(x))
    for i in range(len(x)):
        t = x[i] // int(by[i])
        for k in range(2):
            out[i] = t + k
    return out, t


def deciding(x, by):
    out = np.zeros(len(x))
    for i in range(len(x)):
        for k in range(3):
            out[i] += x[i]
            if out[i] > 2.0:
                out[i] = k / int(by[i])
    return out


def of_caller(x, by, out):
    for i in range(len(x)):
        for k in range(3):
            out[i] = x[i] / int(by[i]) + k
    return out


def seen(x, by):
    out = np.zeros(len(x))
    order = np.argsort(out)
    for i in range(len(x)):
        for k in range(3):
            out[i] = x[i] / int(by[i]) + k
    return out, order


X, ONES = np.arange(40.0), np.ones(40, dtype=np.int64)


def without(k: int, value: int = 0) -> Any:
    by = ONES.copy()
    by[k] = value
    return by


CALLS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    *((divided, (X, by)) for by in (ONES, without(0), without(39), without(17))),
    *((gathered, (X, at)) for at in (np.arange(40)[::-1], without(5, 40), without(39, -41), without(3, -40))),
    *((raising, (X, most)) for most in (100.0, 38.5, -1.0, 20.0)),
    (wrapping, (X,)),
    *((last, (X, by)) for by in (ONES, without(39), without(20))),
    *((deciding, (X, by)) for by in (ONES, without(30))),
    *((of_caller, (X, by, np.zeros(40))) for by in (ONES, without(25))),
    *((seen, (X, by)) for by in (ONES, without(25))),
]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    with tw.config(threads=3), tuning.using(replace(tuning.tuned(), loop_share_units=-1)):
        yield


@pytest.mark.parametrize(("function", "args"), CALLS)
def test_errors_and_results_are_pythons(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    compiled = tw.jit(function, strict=True)
    for _ in range(3):
        ours, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
        assert same(ended(compiled, ours), ended(function, theirs))
        assert all(map(same, ours, theirs))


@pytest.mark.parametrize(
    ("function", "args", "restarts"),
    [
        (divided, (X, ONES), True),
        (gathered, (X, ONES), True),
        (raising, (X, 1.0), True),
        (last, (X, ONES), True),
        (deciding, (X, ONES), False),
        (of_caller, (X, ONES, X), False),
        (seen, (X, ONES), False),
    ],
)
def test_which_loops_run_again(function: Callable[..., Any], args: tuple[Any, ...], restarts: bool) -> None:
    program = program_of(function, *args)
    loops = [s for s in statements(program.body) if isinstance(s, ir.For) and s.parallel and not s.independent]
    assert any(map(operator.attrgetter("restarts"), loops)) == restarts
