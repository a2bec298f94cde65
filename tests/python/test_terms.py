"""Sums of dear terms: the terms are computed side by side and added in order, so that no bit changes."""

import numpy as np
import pytest

import tilewise as tw
from tests.kernel.test_program_passes import program_of
from tilewise.kernel.program.ir import Alloc, For
from tilewise.kernel.program.walk import statements

RNG = np.random.default_rng(5)


def exponentials(x, y, k):
    s = 0.0
    for i in range(len(x)):
        s += np.exp(x[i])
    return s, i


def into_an_element(x, y, k):
    out = np.ones(len(y))
    for i in range(len(y)):
        for j in range(len(x)):
            d = 0.0
            for a in range(3):
                d += (y[i] - x[j - a]) ** 2
            out[i] += y[i] / np.sqrt(d + 1e-6)
    return out


def several(x, y, k):
    s = np.float64(-0.0)
    t = np.float32(1.0)
    for i in range(k, min(len(x), len(y))):
        r = x[i] - y[i]
        w = 1.0 / np.sqrt(r * r + 0.5)
        s = w * r + s
        t -= np.float32(w)
    return s, t


def indirect(x, y, k):
    s = 0.0
    for i in range(len(x)):
        s += np.log1p(abs(x[(i * 7 + k) % len(x)])) / (y[i % len(y)] + 2.0)
    return s


def out_of_range(x, y, k):
    s = 0.0
    for i in range(len(x)):
        s += np.sin(y[i + k])
    return s


def from_the_end(x, y, k):
    s = 0.0
    for i in range(-len(x), 0):
        s += np.cos(x[i])
    return s


def single(x, y, k):
    s = np.float32(0)
    for v in x.astype(np.float32):
        s += np.exp(v)
    return s


BLOCKS = [exponentials, into_an_element, several, out_of_range, from_the_end, single]


def cheap(x, y, k):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * 2.0
    return s


def looks_at_the_sum(x, y, k):
    s = 0.0
    for i in range(len(x)):
        s += np.exp(x[i] - s)
    return s


def carries_another(x, y, k):
    s = 0.0
    last = 0.0
    for i in range(len(x)):
        s += np.exp(x[i] - last)
        last = x[i]
    return s, last


def into_arguments(x, y, k):
    for j in range(len(x)):
        y[0] += np.exp(x[j])
    return y


def reads_the_row(x, y, k):
    out = np.zeros(len(x))
    for j in range(1, len(x)):
        out[0] += np.exp(x[j] + out[j % 2])
    return out


def may_raise(x, y, k):
    s = 0.0
    for i in range(len(x)):
        s += 1.0 / (i - k)
    return s


def has_a_branch(x, y, k):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0:
            s += np.exp(x[i])
    return s


def end_changes(x, y, k):
    s = 0.0
    n = len(x)
    for i in range(n):
        n = i
        s += np.exp(x[i]) + n
    return s, n


NOT = [cheap, looks_at_the_sum, carries_another, into_arguments, reads_the_row, may_raise, has_a_branch]


def blocks(f, *args):
    return [s for s in statements(program_of(f, *args).body) if isinstance(s, Alloc) and s.array.startswith("$terms")]


def arguments(n, k=1):
    return RNG.standard_normal(n), RNG.standard_normal(n), k


@pytest.mark.parametrize("f", BLOCKS, ids=lambda f: f.__name__)
def test_terms_go_in_blocks(f):
    assert blocks(f, *arguments(4))
    with tw.config(without="terms"):
        assert not blocks(f, *arguments(4))


@pytest.mark.parametrize("f", NOT, ids=lambda f: f.__name__)
def test_other_loops_stay(f):
    assert not blocks(f, *arguments(4))


@pytest.mark.quick_code
@pytest.mark.parametrize("n", [1, 16, 130])
@pytest.mark.parametrize("f", [*BLOCKS[:-1], *NOT, indirect, end_changes], ids=lambda f: f.__name__)
def test_results(f, n, agree):
    for k in (0, 1, n):
        agree(f, *arguments(n, k))
    x, y, _ = arguments(n)
    agree(f, np.repeat(x, 2)[::2], y[::-1], 0)


@pytest.mark.parametrize("f", BLOCKS, ids=lambda f: f.__name__)
def test_no_bit_changes(f):
    for n in (16, 100, 1000):
        args = arguments(n, 0)
        with tw.config(without="terms"):
            want = tw.jit(f, strict=True)(*args)
        assert repr(tw.jit(f, strict=True)(*args)) == repr(want)


def test_threads_have_their_own_terms():
    x, y = RNG.standard_normal(500), RNG.standard_normal(300)
    with tw.config(without="terms", threads=1):
        want = tw.jit(into_an_element, strict=True)(x, y, 0)
    with tw.config(threads=3):
        found = tw.jit(into_an_element, strict=True)(x, y, 0)
    assert any(isinstance(s, For) and s.parallel for s in statements(program_of(into_an_element, x, y, 0).body))
    assert repr(found) == repr(want)


def test_explain_says_so():
    plan = str(tw.explain(into_an_element, *arguments(4)))
    assert "terms of its sums side by side, where no subscript can be out of range" in plan
