"""Intervals of integers in programs: which checks go, and that what stays still raises; arrays that nobody keeps."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.api.functions.source_call import SourceFunction
from tilewise.kernel.program import interpret
from tilewise.kernel.program.ir import Alloc, Const, Product, Program
from tilewise.kernel.program.show import text
from tilewise.kernel.program.walk import statements

INTS = np.array([5, -3, 8, 0, 2, 7, -6, 4])


def program_of(f: Callable[..., Any], *args: Any) -> Program:
    return SourceFunction(f).code_for(args, {}).made.program  # type: ignore[arg-type]


def gcds(a, n):
    s = 0
    for i in range(n):
        x, y = i, n
        while y:
            x, y = y, x % y
        s += x
    return s


def bits(a, n):
    r = k = 0
    while (1 << k) < n:
        k += 1
    for b in range(k):
        r |= 1 << (k - 1 - b)
    return r


def sorted_in_place(a, n):
    for i in range(1, len(a)):
        x = a[i]
        j = i - 1
        while j >= 0 and a[j] > x:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = x


def guarded(a, n):
    s = 0
    for i in range(-n, 2 * n):
        if 0 <= i < len(a):
            s += int(a[i])
    return s


def roots(a, n):
    d = 1
    while d * d <= n:
        d += 1
    return d


@pytest.mark.parametrize("f, gone", [(gcds, 1), (bits, 1), (sorted_in_place, 0), (guarded, 1), (roots, 0)])
def test_checks_that_cannot_fail_are_left_out(f: Callable[..., Any], gone: int) -> None:
    lines = text(program_of(f, INTS.copy(), 12)).partition("  result 0")[2]
    assert lines.count(" !") == gone, lines


def from_the_end(a, n):
    s = 0
    for i in range(n):
        s += a[i - 2] + a[n - 1 - i]
    return int(s)


def triangle(a, n):
    s = 0
    for i in range(n):
        for j in range(i + 1):
            s += a[i - j] * (i + 1)
    return int(s)


def divided(a, n):
    s = 0
    for i in range(len(a)):
        s += n // int(a[i]) + n % int(a[i])
    return s


def shifted(a, n):
    s = 0
    for i in range(len(a)):
        s += (n << int(a[i])) + (n >> abs(int(a[i])))
    return s


def tripled(a, n):
    x, s = n, 0
    for _ in range(50):
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        s += 1
    return x, s


def stepped(a, n):
    for k in range(n, len(a) + n // 8, 3 if n > 1 else 1):
        a[k] += 1
    return a[0]


def taken_away(a, n):
    for i in range(len(a)):
        w = a[i] * n  # NumPy's, which wraps
        for c in range(7, w - 1, -1):
            if a[c - w] > a[c]:
                a[c] = a[c - w] + w
    return a[1]


@pytest.mark.parametrize("n", [0, 1, 4, 8, 9, -2, 2**31 + 1, 2**62])
@pytest.mark.parametrize("f", [from_the_end, triangle, divided, shifted, tripled, stepped, taken_away])
def test_what_remains_is_what_python_says(f: Callable[..., Any], n: int) -> None:
    def outcome(g: Callable[..., Any]) -> Any:
        a = INTS.copy()
        try:
            return repr(g(a, n)), a.tolist()
        except Exception as error:
            return type(error).__name__, str(error), a.tolist()

    if f in (from_the_end, triangle) and n > 1000:
        return  # a loop of years, if it does not fail
    with np.errstate(all="ignore"):
        assert outcome(tw.jit(f)) == outcome(f)


def stepping(y, n):
    def slope(v):
        return np.array([v[1], -v[0]])

    for _ in range(n):
        first = slope(y)
        second = slope(y + 0.5 * first)
        y = y + second
    return y


def kept(y, n):
    last = y
    for k in range(n):
        now = np.array([y[0] + k, last[1]])
        y = y + now * last
        last = now
    return y


@pytest.mark.parametrize("f, own", [(stepping, True), (kept, False)])
def test_arrays_that_nobody_keeps_have_memory_of_their_own(f: Callable[..., Any], own: bool) -> None:
    y = np.array([1.0, 0.5])
    program = program_of(f, y, 5)
    small = [s for s in statements(program.body) if isinstance(s, Alloc) and s.private and len(s.shape) == 1]
    assert bool(small) == own
    assert np.array_equal(tw.jit(f)(y, 5), f(y, 5))
    assert np.array_equal(interpret.run(program, [y, 5]).values[0], f(y, 5))


def turned(y, n):
    for k in range(n):
        m = np.array([[0.5, -1.0 * k], [1.0, 0.25]])
        y = m @ y + y
    return y


@pytest.mark.parametrize("y", [np.array([1.0, 0.5]), np.ones(3), np.ones(1)], ids=len)
@pytest.mark.parametrize("f", [stepping, turned])
def test_lengths_are_known_after_arrays_have_met(f: Callable[..., Any], y: Any) -> None:
    program = program_of(f, y, 4)
    lengths = [s.shape for s in statements(program.body) if isinstance(s, Alloc)]
    assert all(isinstance(n, Const) for shape in lengths for n in shape), lengths
    assert not any(isinstance(s, Product) for s in statements(program.body))
    fits = len(y) == 2
    for run in (tw.jit(f, strict=True), f):
        with contextlib.nullcontext() if fits else pytest.raises((ValueError, IndexError)):
            assert np.allclose(run(y, 4), f(y, 4), rtol=1e-14)


def two_in_turns(y, n, much):
    before = first = y
    for k in range(n):
        if k == 3:
            first = y
        before = y
        y = y * 0.5 + before if k < much else np.concatenate((y, y)) - k
    return y, before, first


@pytest.mark.parametrize("much", [0, 2, 9])
def test_arrays_of_earlier_turns_stay_as_they_are(much: int) -> None:
    y = np.arange(5.0)
    with tw.config(fallback="silent"):
        got = tw.jit(two_in_turns)(y, 6, much)
    for x, want in zip(got, two_in_turns(y, 6, much), strict=True):
        assert np.array_equal(x, want)
