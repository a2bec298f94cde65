"""Loops over arrays that take each other's places: a version for where they lie apart, and the plain one."""

import numpy as np
import pytest

import tilewise as tw
from tests.kernel.test_program_passes import marked, program_of
from tilewise.kernel.program.ir import Apart, If
from tilewise.kernel.program.show import text
from tilewise.kernel.program.walk import expressions, statements

RNG = np.random.default_rng(9)


def swapped(u, steps):
    new = np.zeros_like(u)
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                new[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        u, new = new, u
    return u, new


def made_anew(u, steps):
    for k in range(steps):
        new = np.zeros_like(u)
        for i in range(1, u.shape[0]):
            for j in range(u.shape[1]):
                new[i, j] = u[i - 1, j] + k
        u = new
    return u


def sometimes_itself(u, steps):
    new = np.zeros_like(u)
    for k in range(steps):
        for i in range(1, u.shape[0]):
            for j in range(u.shape[1]):
                new[i, j] = u[i - 1, j] + 1.0
        if k % 2:
            u, new = new, u
        else:
            u = new
    return u, new


def parts_of_itself(u, steps):
    new = np.zeros_like(u)
    for k in range(steps):
        for i in range(1, u.shape[0]):
            for j in range(u.shape[1]):
                new[i, j] = u[i - 1, j] + 1.0
        new, u = (u[1:], u[:-1]) if k % 3 else (u, new)
    return u


def views_inside(u, steps):
    new = np.zeros_like(u)
    for _ in range(steps):
        for i in range(1, u.shape[0]):
            row, above = new[i], u[i - 1]
            for j in range(u.shape[1]):
                row[j] = above[j] * 0.5 + 1.0
        u, new = new, u
    return u


def three(u, steps):
    a, b = u.copy(), np.ones_like(u)
    for _ in range(steps):
        for i in range(1, u.shape[0]):
            for j in range(u.shape[1]):
                b[i, j] = 2 * a[i, j] - u[i - 1, j]
        u, a, b = a, b, u
    return u, a, b


def raises(u, steps):
    new = np.zeros_like(u)
    for k in range(steps):
        for i in range(u.shape[0]):
            for j in range(u.shape[1]):
                new[i, j] = u[i, j] + u[i - 1, j + k - 2]
        u, new = new, u
    return u


def product(u, steps):
    for k in range(steps):
        new = np.zeros((len(u), len(u)))
        for i in range(len(u)):
            for j in range(len(u)):
                s = 0
                for h in range(len(u)):
                    s += int(u[i, h]) * int(u[h, j])
                new[i, j] = s % (7 - k)
        u = new
    return u


VERSIONS = [swapped, made_anew, sometimes_itself, parts_of_itself, views_inside, three, product]


@pytest.mark.parametrize("f", [*VERSIONS, raises], ids=lambda f: f.__name__)
@pytest.mark.quick_code
def test_results(f, agree):
    for shape in ((9, 9), (30, 30), (1, 1), (0, 0)):
        u = np.floor(RNG.random(shape) * 9)
        for steps in (0, 1, 2, 5, 8):
            agree(f, u.copy(), steps)
    agree(f, np.floor(RNG.random((12, 24)) * 9)[:, ::2], 4)
    agree(f, np.floor(RNG.random((12, 12)) * 9).T[::-1], 4)


@pytest.mark.parametrize("f", VERSIONS[:-1], ids=lambda f: f.__name__)
def test_there_are_two_versions(f):
    program = program_of(f, np.ones((5, 5)), 3)
    tests = [s for s in statements(program.body) if isinstance(s, If)]
    assert any(isinstance(e, Apart) for s in tests for e in expressions(s))
    assert "i" in marked(program) or f is views_inside  # whose names show rows when it has ended
    with tw.config(without="loop_versions"):
        assert "i" not in marked(program_of(f, np.ones((5, 5)), 3))


def test_arrays_that_are_known_to_lie_apart_need_no_test():
    def f(u):
        new = np.zeros_like(u)
        for i in range(1, len(u)):
            new[i] = u[i - 1]
        return new

    program = program_of(f, np.ones(5))
    assert not any(isinstance(e, Apart) for s in statements(program.body) for e in expressions(s))
    assert marked(program)


def integers(a, b, modulus):
    n = len(a)
    made = np.zeros((n, n), dtype=np.int64)
    for i in range(n):
        for j in range(n):
            s = 0
            for k in range(n):
                s += a[i, k] * b[k, j]
            made[i, j] = (s + j) % modulus
    return made


def of_any_length(a, b, modulus):
    made = np.zeros((len(a), b.shape[1]), dtype=np.int64)
    for i in range(len(a)):
        for j in range(b.shape[1]):
            s = 0
            for k in range(b.shape[0]):
                s += a[i, k] * b[k, j]
            made[i, j] = s % modulus
    return made


@pytest.mark.quick_code
@pytest.mark.parametrize("n", [0, 1, 7, 16, 21, 37])
def test_what_follows_sums_abreast_is_done_in_turns(n, agree):
    a, b = RNG.integers(-9, 9, (n, n)), RNG.integers(-9, 9, (n, n))
    for modulus in (7, -5, np.int64(3), 0, np.int64(0)):
        agree(integers, a, b, modulus)
    agree(of_any_length, a[:, 1:], RNG.integers(0, 9, (max(n - 1, 0), n + 1)), 4)


def test_a_loop_that_runs_settles_the_type_of_its_sum():
    program = program_of(integers, *(RNG.integers(0, 9, (4, 4)) for _ in range(2)), 7)
    assert "s? :=" not in text(program) and "$row" in text(program)


def may_fail(u, steps):
    old, new = u.copy(), np.zeros_like(u)
    for k in range(steps):
        for i in range(u.shape[0]):
            for j in range(u.shape[1]):
                new[i, j] = old[i - 1, j] + 10 // (j - k)
        old, new = new, old
    return old


def test_versions_that_may_fail_run_again(agree):
    assert "i" in marked(program_of(may_fail, np.ones((5, 5)), 3))
    for steps in (0, 1, 3):
        agree(may_fail, np.ones((40, 1)), -steps)
        agree(may_fail, RNG.random((40, 3)), steps)


def overflows_at_last(u, steps):
    old, new = u, np.zeros_like(u)
    for _ in range(steps):
        for i in range(1, u.shape[0]):
            for j in range(u.shape[1]):
                new[i, j] = old[i, 0] - new[i - 1, j] - 3e300
        old, new = new, old
    return int(old[1, 0]) % 100


@pytest.mark.parametrize("native", [True, False])
def test_writes_to_arguments_are_noted(native):
    with tw.config(native=native):
        f = tw.jit(overflows_at_last, strict=True)
        with pytest.raises(OverflowError):  # it is too late to run again in Python
            f(np.ones((3, 4)), 2)
