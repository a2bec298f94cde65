"""Neighbouring slice statements as one loop: which become one, and that nothing else changes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python.conftest import ended, same
from tilewise.api.functions.source_call import SourceFunction
from tilewise.kernel.program.ir import Alloc, For, Program
from tilewise.kernel.program.walk import statements


def program_of(f: Callable[..., Any], *args: Any) -> Program:
    with tw.config(native=False):
        return SourceFunction(f).code_for(args, {}).made.program  # type: ignore[arg-type]


def loops_of(f: Callable[..., Any], *args: Any) -> tuple[int, int]:
    """How many loops over elements a function has (but for those that hardly ever run), and arrays in them."""
    every = list(statements(program_of(f, *args).body))
    inner = [s for s in every if isinstance(s, For) and s.independent and not s.rare]
    inner = [s for s in inner if not any(isinstance(x, For) for x in s.body)]
    return len(inner), sum(isinstance(s, Alloc) for s in every)


def two(u, v, w):
    for _ in range(3):
        u[1:-1] = 0.5 * (v[2:] - v[:-2])
        w[1:-1] = u[1:-1] * 3.0


def vanishing(u, v, w):
    for t in range(3):
        lap = u[2:] + u[:-2] - 2 * u[1:-1]
        square = lap * lap
        factor = t * 0.25
        v[1:-1] += factor * square
        w[1:-1] = v[1:-1] - lap


def kept(u, v, w):
    for _ in range(2):
        a = u + v
        b = a * 2.0
        w[:] = b
    return b, len(a)


def neighbours_are_needed(u, v, w):
    for _ in range(2):
        u[1:-1] = v[1:-1] * 2.0
        w[1:-1] = u[2:] + u[:-2]


def written_before_read(u, v, w):
    for _ in range(2):
        w[1:-1] = u[2:] + u[:-2]
        u[1:-1] = v[1:-1] * 2.0


def stale(u, v, w):
    for t in range(3):
        if t > 0:
            z = y  # noqa: F821
        y = u + t
        if t == 0:
            continue
        w[:] = z * 2.0
        v[:] = w + y


def stale_again(u, v, w):
    t = 0
    y = u * 1.0
    while t < 3:
        z = y
        y = u + t
        w[:] = z * 2.0
        v[:] = w + y
        t += 1
    return z, y


def numbers_between(u, v, w):
    s = 1.0
    for t in range(3):
        u[:] = v * s
        s = s + t
        w[:] = u + s
    return s


def several_shapes(u, v, w):
    for _ in range(2):
        u[:] = 1.5
        w[1:3] = 2.5
        v[1:3] = w[1:3] + u[1:3]


def of_one_array(u, v, w):
    for k in range(2):
        u[:3] = v[:3] + 1.0
        u[3:6] = u[:3] * 2.0
        u[k : k + 3] = u[:3] - w[:3]


def columns_that_meet_at_last(x, y, z):
    for k in range(x.shape[1] - 1, -1, -1):
        y[:-1, k] = x[1:, k] * 2.0
        z[:-1, 1] = y[1:, 0] + 1.0  # for the last k, of what was written just now
        x[:-1, 1] = z[:-1, 1] * 3.0


@pytest.mark.parametrize("native", [False, True])
def test_all_tests_of_columns_are_made(native: bool) -> None:
    """Also those of two loops that a third one joins."""
    ours, plain = ([np.arange(24.0).reshape(8, 3) + k for k in range(3)] for _ in range(2))
    program = program_of(columns_that_meet_at_last, *ours)
    assert loops_of(columns_that_meet_at_last, *ours)[0] == 1
    columns_that_meet_at_last(*plain)
    with tw.config(native=native):
        tw.jit(columns_that_meet_at_last, strict=True)(*ours)
    assert same(ours, plain), program


N = 8
# A function, how many loops it has in the end and how many it would have, and arrays that are made.
ROWS: list[tuple[Callable[..., Any], int, int, int]] = [
    (two, 1, 2, 0),
    (vanishing, 1, 4, 0),
    (kept, 1, 3, 2),
    (neighbours_are_needed, 2, 2, 0),
    (written_before_read, 2, 2, 0),
    (numbers_between, 1, 2, 0),
    (several_shapes, 2, 3, 0),
]


@pytest.mark.parametrize(("f", "fused", "apart", "arrays"), ROWS, ids=[f.__name__ for f, *_ in ROWS])
def test_which_statements_become_one_loop(f: Callable[..., Any], fused: int, apart: int, arrays: int) -> None:
    args = [np.ones(N) for _ in range(3)]
    assert loops_of(f, *args)[0] == fused
    if not arrays:  # but for the forms that are right for all shapes
        fast = text_of_fast_paths(program_of(f, *args))
        assert not any(isinstance(s, Alloc) for s in fast)
    with tw.config(without="loop_fusion"):
        assert loops_of(f, *args)[0] == apart


def text_of_fast_paths(program: Program) -> list[Any]:
    """Statements that are no second form."""
    found: list[Any] = []
    todo = [*program.body]
    while todo:
        s = todo.pop()
        found.append(s)
        todo += getattr(s, "then", ()) or getattr(s, "body", ())
    return found


EVERY = [two, vanishing, kept, neighbours_are_needed, written_before_read, stale, stale_again]
EVERY += [numbers_between, several_shapes, of_one_array]
NATIVELY = (vanishing, kept, stale)


@pytest.mark.parametrize("f", EVERY, ids=[f.__name__ for f in EVERY])
def test_results_and_exceptions_are_pythons(f: Callable[..., Any]) -> None:
    def arguments(*lengths: int) -> list[Any]:
        return [np.linspace(-k, 3.0 + k, n) if n else np.zeros(0) for k, n in enumerate(lengths)]

    compiled = tw.jit(f, strict=True)
    for lengths in ((8, 8, 8), (8, 8, 7), (8, 3, 8), (3, 3, 3), (2, 2, 2), (0, 0, 0), (1, 1, 1), (6, 1, 6), (9, 9, 3)):
        for native in (False, True) if f in NATIVELY else (False,):
            ours, plain = arguments(*lengths), arguments(*lengths)
            with tw.config(native=native):
                found = ended(compiled, ours)
            expected = ended(f, plain)
            assert same(found, expected), (f.__name__, lengths, found, expected)
            assert same(ours, plain), (f.__name__, lengths)
    memory, theirs = np.arange(12.0), np.arange(12.0)
    with tw.config(native=False):
        found = ended(compiled, [memory[:8], memory[2:10], memory[4:]])
    assert same(found, ended(f, [theirs[:8], theirs[2:10], theirs[4:]]))
    assert same(memory, theirs)
