"""Small arrays that each iteration fills anew: iterations have their own, and may run on several threads."""

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


def median(x):
    out = x.copy()
    window = np.empty(9)
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            for a in range(3):
                for b in range(3):
                    window[3 * a + b] = x[i - 1 + a, j - 1 + b]
            for k in range(1, 9):
                v = window[k]
                at = k - 1
                while at >= 0 and window[at] > v:
                    window[at + 1] = window[at]
                    at -= 1
                window[at + 1] = v
            out[i, j] = window[4]
    return out


def made_in_turn(x):
    out = np.zeros(len(x))
    for i in range(len(x)):
        w = np.zeros((2, 2))
        for k in range(2):
            w[k, -1] += x[i, k]
            w[k, 0] -= w[k, 1]
        out[i] = w[0, 0] * w[1, 1]
    return out


def zeros_overwritten(x):
    out = np.zeros(len(x))
    w = np.zeros(2)
    for i in range(len(x)):
        w[0] = x[i, 0]
        w[-1] = x[i, 1]
        for k in range(3):
            out[i] += w[k % 2]
    return out


def early(x):
    out = np.zeros(len(x))
    w = np.empty(3)
    for i in range(len(x)):
        for k in range(3):
            w[k] = x[i, k]
            if k == 2:
                break
        for k in range(3):
            out[i] += w[k]
    return out


def both_arms(x):
    out = np.zeros(len(x))
    w = np.empty(2)
    for i in range(len(x)):
        if x[i, 0] > 1:
            w[0] = 1
            w[1] = x[i, 1]
        else:
            w[1] = 2
            w[0] = x[i, 2]
        for k in range(2):
            out[i] += w[k] * (k + 1)
    return out


def at_places(x):
    out = np.zeros(len(x))
    w = np.empty(3)
    for i in range(len(x)):
        for k in range(3):
            w[k] = x[i, k]
        for k in range(2):
            out[i] += w[int(x[i, k])]
    return out


def turned(x):
    out = np.empty((len(x), 2))
    for i in range(len(x)):
        m = np.array([x[i, 0], 1.0])
        for k in range(4):
            c = x[i, k]
            m = np.array([[c, 0.0], [1.0, 1.0]]) @ (np.array([[c, -1.0], [1.0, c]]) @ m)
        out[i] = m
    return out


def in_turns(x):
    out = np.empty(len(x))
    for i in range(len(x)):
        a, b = np.zeros(2), np.ones(2)
        for k in range(3):
            a, b = b, a + x[i, k]
            b[1] = a[0] - 1
        out[i] = a[0] * b[1] + b[0] * a[1]
    return out


def turned_on(x):
    out = np.empty((len(x), 2))
    m = np.zeros(2)
    for i in range(len(x)):
        m = m * 2 + x[i, :2]
        out[i] = m
    return out


def last_one(x):
    out = np.empty((len(x), 2))
    m = np.zeros(2)
    for i in range(len(x)):
        m = np.array([x[i, 0], x[i, 1]])
        out[i] = m
    return out, m


def accumulated(x):
    out = np.zeros(len(x))
    w = np.zeros(2)
    for i in range(len(x)):
        for k in range(2):
            w[k] += x[i, k]
            out[i] += w[k]
    return out


def partly(x):
    out = np.zeros(len(x))
    w = np.zeros(3)
    for i in range(len(x)):
        for k in range(2):
            w[k] = x[i, k]
        for k in range(3):
            out[i] += w[k]
        w[2] = i
    return out


def one_arm(x):
    out = np.zeros(len(x))
    w = np.zeros(2)
    for i in range(len(x)):
        if x[i, 0] > 1:
            w[0] = x[i, 1]
            w[1] = 2
        for k in range(2):
            out[i] += w[k]
    return out


def broken_off(x):
    out = np.zeros(len(x))
    w = np.zeros(3)
    for i in range(len(x)):
        for k in range(3):
            if x[i, k] > 2:
                break
            w[k] = x[i, k]
        for k in range(3):
            out[i] += w[k]
    return out


def read_later(x):
    out = np.zeros(len(x))
    w = np.empty(2)
    for i in range(len(x)):
        for k in range(2):
            w[k] = x[i, k]
            out[i] += w[k]
    return out, w[1]


def made_and_read_later(x):
    out = np.zeros(len(x))
    w = np.empty(2)
    for i in range(len(x)):
        w = np.empty(2)
        for k in range(2):
            w[k] = x[i, k]
            out[i] += w[k]
    return out, w


def other_name(x):
    out = np.zeros(len(x))
    w = np.empty(2)
    v = w
    for i in range(len(x)):
        for k in range(2):
            w[k] = x[i, k]
            out[i] += v[k]
    return out, v


def decided(x):
    out = np.zeros(len(x))
    w = np.empty(2)
    for i in range(len(x)):
        for k in range(2):
            out[i] += x[i, k]
            w[k] = out[i]
        w[1 - (x[i, 0] > 1)] = out[i]
        for k in range(2):
            if w[0] > 2.0:
                out[i] = k / int(x[i, 2])
    return out


def large(x):
    out = np.zeros(len(x))
    w = np.empty(100)
    for i in range(len(x)):
        for k in range(100):
            w[k] = x[i, 0] + k
        for k in range(2):
            out[i] += w[k]
    return out


X = np.random.default_rng(0).integers(0, 4, (40, 5)).astype(float)
SMALL = np.minimum(X, 2)
FAILS = SMALL.copy()
FAILS[17, 1] = 3
BELOW = FAILS.copy()
BELOW[17, 1] = -2
OWN = {median, made_in_turn, zeros_overwritten, both_arms, at_places, turned}
SHARED = {
    turned_on,
    last_one,
    accumulated,
    partly,
    early,
    one_arm,
    broken_off,
    read_later,
    made_and_read_later,
    other_name,
    large,
}
CALLS = [(f, x) for f in sorted(OWN | SHARED | {decided}, key=lambda f: f.__name__) for x in (X, SMALL, FAILS, BELOW)]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    with tw.config(threads=3), tuning.using(replace(tuning.tuned(), loop_share_units=-1)):
        yield


@pytest.mark.parametrize(("function", "x"), CALLS)
def test_errors_and_results_are_pythons(function: Callable[..., Any], x: Any) -> None:
    compiled = tw.jit(function)
    for _ in range(3):
        assert same(ended(compiled, [x.copy()]), ended(function, [x.copy()]))


def on_threads(function: Callable[..., Any]) -> ir.For | None:
    """The loop that is on several threads, if it is one of the function's own."""
    program = program_of(function, X)
    found = [s for s in statements(program.body) if isinstance(s, ir.For) and s.parallel and not s.independent]
    return found[0] if found else None


@pytest.mark.parametrize("function", sorted(OWN, key=lambda f: f.__name__))
def test_iterations_have_their_own(function: Callable[..., Any]) -> None:
    loop = on_threads(function)
    assert loop is not None
    made = [s for s in statements(loop.body) if isinstance(s, ir.Alloc)]
    assert made and all(s.private and s.zero == (function is made_in_turn) for s in made)


@pytest.mark.parametrize("function", sorted(SHARED, key=lambda f: f.__name__))
def test_what_others_wrote_may_be_read(function: Callable[..., Any]) -> None:
    assert on_threads(function) is None


def test_what_decides_is_not_run_again() -> None:
    loop = on_threads(decided)
    assert loop is None or not loop.restarts


def read_after_loops(x):
    for i in range(len(x)):
        t = np.zeros((5, 1))
        for j in range(1):
            t[j, 0] = x[i, 0]
    last = t[3, 0]
    return last


def read_in_the_next_turn(x):
    total, t = 0.0, np.ones(3)
    for i in range(len(x)):
        total += t[2]
        t = np.zeros(3)
        for j in range(2):
            t[j] = x[i, j] + t[j]
    return total


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("function", [read_after_loops, read_in_the_next_turn])
def test_zeros_that_others_read_are_written(function: Callable[..., Any], native: bool) -> None:
    with tw.config(native=native):
        compiled = tw.jit(function, strict=True)
        for _ in range(3):
            assert same(ended(compiled, [X.copy()]), ended(function, [X.copy()]))


def test_arrays_stay_where_others_read_them() -> None:
    made = [s for s in statements(program_of(read_after_loops, X).body) if isinstance(s, ir.Alloc)]
    assert made and all(s.zero for s in made)
