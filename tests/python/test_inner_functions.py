"""Functions inside of functions: when their defaults are evaluated, and whose names they see."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python.conftest import Ended


def defaults_of_elements(a):
    def f(k=a[0], *, m=a[1] * 2.0):
        return k + m

    g = lambda v=a[1:3] * 2.0, w=-1: v * w  # noqa: E731 - defaults of a lambda
    for i in range(3):
        a[i] = 50.0
    return f(), f(1.0), f(m=2.0), g()[0], g(w=3)[1]


def defaults_of_names(a):
    n = 1

    def f(k=n):
        return k * 10

    def g(n):
        return f() + n

    for i in range(3):
        n += 4
        a[i] = g(7) + n
    return n


def defaults_that_last(a):
    def f(v=a * 2.0):
        return v

    a[0] = 50.0
    v = f()
    for i in range(2):
        v[i] = 99.0
    return f()


def defaults_of_recursion(a, n):
    def down(f, k):
        return f(1) if k == 0 else down(f, k - 1) + f(k)

    for i in range(n):
        a[i] = down(lambda u, b=2: u * b, n)


def calls_of_results(a):
    def scaled(v):
        w = v * 2.0

        def f(u):
            v = u + 1.0
            return v + w

        return f

    a[0] = scaled(a[1])(5.0)
    for i in range(3):
        a[i] += a[0]


@pytest.mark.parametrize(
    ("f", "more"),
    [
        (defaults_of_elements, ()), (defaults_of_names, ()), (defaults_that_last, ()), (defaults_of_recursion, (3,)),
        (calls_of_results, ()),
    ],
)  # fmt: skip
def test_inner_functions(agree: Callable[..., Ended], f: Callable[..., Any], more: tuple[int, ...]) -> None:
    agree(f, np.arange(1.0, 7.0), *more)


def lists_as_defaults(a):
    def f(k, known=[]):  # noqa: B006 - one list for all calls
        known.append(k)
        return len(known)

    for i in range(3):
        a[i] = f(i)


def calls_made_again(a):
    def times(v):
        def f(u):
            return u * v

        return f

    g = times(7.0)
    for k in (1.0, 2.0, 3.0):
        h = g
        g = times(k)
        a[0] = a[0] * 10.0 + h(1.0)


@pytest.mark.parametrize("f", [lists_as_defaults, calls_made_again])
def test_right_or_refused(f: Callable[..., Any]) -> None:
    """Functions whose own values are gone are not called with others."""
    ours, plain = np.ones(3), np.ones(3)
    with tw.config(fallback="silent"):
        assert tw.jit(f)(ours) == f(plain)
    assert np.array_equal(ours, plain)


def returned(k):
    for i in range(3):
        k += i
    return lambda u: u + k


def test_a_function_as_a_result() -> None:
    with tw.config(fallback="silent"):
        assert tw.jit(returned)(2)(1) == returned(2)(1)
