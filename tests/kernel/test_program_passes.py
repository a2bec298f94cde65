"""Passes on programs with loops: which loops they mark, and that what they make of programs means the same."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.fuzz import nests
from tilewise import tuning
from tilewise.api.functions.source_call import SourceFunction
from tilewise.kernel.program.ir import For, Program, View
from tilewise.kernel.program.optimise import accesses
from tilewise.kernel.program.show import text
from tilewise.kernel.program.walk import statements

F2 = np.arange(144.0).reshape(12, 12) / 7


def program_of(f: Callable[..., Any], *args: Any) -> Program:
    return SourceFunction(f).code_for(args, {}).made.program  # type: ignore[arg-type]


def marked(program: Program) -> list[str]:
    """The variables of loops that may have threads; those of slices are $."""
    loops = [s for s in statements(program.body) if isinstance(s, For) and s.parallel]
    return [s.name[0] for s in loops]


def rows(A, B):
    for i in range(1, A.shape[0]):
        for j in range(A.shape[1]):
            B[i, j] = A[i - 1, j]


def in_place(A, B):
    for i in range(1, A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = A[i - 1, j]


def below(A, B):
    for i in range(A.shape[0]):
        for j in range(i + 1, A.shape[0]):
            for k in range(i, A.shape[1]):
                A[j, k] -= A[i, k] * B[j, i]


def carried(A, B):
    s = 0.0
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            s += A[i, j]
            B[i, j] = s


def private(A, B):
    for i in range(A.shape[0]):
        t = A[i, 0] * 2
        for j in range(A.shape[1]):
            s = A[i, j] * t
            B[i, j] = s
    return t, i


def left_over(A, B):
    for i in range(A.shape[0]):
        for j in range(i + 1, A.shape[1]):
            B[i, j] = A[i, j]
    return j


def gathered(A, B):
    at = np.argsort(A[0]) if False else np.arange(A.shape[0])
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            B[at[i], j] = A[i, j]


def slices(A, B):
    for _ in range(3):
        B[1:-1, 1:-1] = A[1:-1, 2:] + A[1:-1, :-2]
        A[1:-1, 1:-1] = B[1:-1, 1:-1] - B[2:, 1:-1]


def early(A, B):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            if A[i, j] > 12:
                return i
            B[i, j] = 1
    return -1


@pytest.mark.parametrize(
    "f, loops",
    [
        (rows, "i"),
        (in_place, "j"),
        (below, "j"),
        (carried, ""),
        (private, "i"),
        (left_over, "j"),
        (gathered, "$j"),
        (slices, "$"),
        (early, ""),
    ],
)
def test_which_loops_have_threads(f: Callable[..., Any], loops: str) -> None:
    program = program_of(f, F2.copy(), F2.copy())
    assert "".join(sorted(set(marked(program)))) == loops, text(program)


def matmul(A, B):
    C = np.zeros_like(A)
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]
    return C


def dots(A, B):
    C = np.zeros_like(A)
    for i in range(A.shape[0]):
        for j in range(A.shape[0]):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * B[j, k]
            C[i, j] = s
    return C


def solve(A, B):
    for j in range(B.shape[1]):
        for i in range(B.shape[0]):
            for k in range(i):
                B[i, j] -= A[i, k] * B[k, j]
            B[i, j] /= A[i, i] + 3


def beyond(A, B):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            for k in range(A.shape[1]):
                B[i, j] += A[i, k + 1] * 2


ALL = [rows, in_place, below, carried, private, left_over, gathered, slices, early, matmul, dots, solve, beyond]


def outcome(f: Callable[..., Any]) -> tuple[Any, ...]:
    A, B = F2.copy(), np.cos(F2)
    try:
        told: Any = f(A, B)
    except IndexError as error:
        told = str(error)
    return repr(told), A.tobytes(), B.tobytes()


@pytest.mark.parametrize("f", ALL)
def test_all_ways_have_the_same_bits(f: Callable[..., Any]) -> None:
    want = outcome(f)
    for name, setting in nests.all_settings().items():
        with setting():
            compiled = tw.jit(f, strict=True)
            assert [outcome(compiled) for _ in range(2)] == [want] * 2, name


def test_rows_become_the_innermost_loop_and_sums_run_side_by_side() -> None:
    assert "for k:int64 in range" in (found := text(program_of(matmul, F2, F2)).partition("or, if subscripts")[2])
    assert found.index("for k:int64") < found.index("for j:int64")
    assert "s:np.float64~3 := add" in text(program_of(dots, F2, F2))


def test_large_loops_ask_for_threads_once_and_let_them_go(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewise.backend import threads

    asked: list[int] = []
    begin = threads.begin
    monkeypatch.setattr(threads, "begin", lambda: asked.append(1) or begin())
    A, B = np.ones((400, 400)), np.zeros((400, 400))
    with tw.config(threads=2):
        f = tw.jit(slices)
        f(A, B)
        assert len(asked) == 1 and "team" not in threads._team.owner
        f(np.ones((4, 4)), np.ones((4, 4)))
        assert len(asked) == 1
    with tw.config(threads=2), tuning.using(replace(tuning.tuned(), loop_share_units=1 << 60)):
        tw.jit(slices)(A, B)
    assert len(asked) == 1


@pytest.mark.parametrize("seed", [3, 11])
def test_random_nests(seed: int) -> None:
    assert not nests.wrong(seed), nests.source_of(seed)


def test_random_nests_find_a_wrong_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accesses, "independent", lambda program, loop, own: True)
    assert "1 thread," in nests.wrong(9) and "3 threads" in nests.wrong(13)


def ones(x, n):
    for v in x:
        while v:
            v &= v - 1
            n += 1
    return n


def test_loops_that_count_ones_are_one_operation() -> None:
    assert "loop:" not in text(program_of(ones, np.arange(5), 2))
    with tw.config(without="bit_counts"):
        assert "loop:" in text(program_of(ones, np.arange(5), 2))


def with_helper(A, B):
    def dot(x, y):
        s = 0.0
        for k in range(len(x)):
            s += x[k] * y[k]
        return s

    return dot(A[0], B[0]) + dot(A[1], B[1])


def rebound(A, B):
    v = A[0]
    s = 0.0
    for x in v:
        v = B[1]
        s = s * 0.5 + x + v[0]
    return s


def rebound_in_turn(A, B):
    s = 0.0
    for k in range(3):
        v = A[k]
        for x in v:
            s = s * 0.5 + x
            if x > 2.0:
                v = B[k]
        s += v[1]
    return s


def names(program: Program) -> int:
    return sum(isinstance(s, View) and s.renamed for s in statements(program.body))


@pytest.mark.parametrize("f", [with_helper, rebound, rebound_in_turn])
def test_names_for_the_same_array(f: Callable[..., Any]) -> None:
    """Arguments of helpers need no names of their own; a loop goes over what it began with."""
    with tw.config(without="aliases"):
        every = program_of(f, F2, F2 + 1)
    assert tw.jit(f, strict=True)(F2, F2 + 1) == f(F2, F2 + 1)
    assert names(program_of(f, F2, F2 + 1)) == names(every) - {with_helper: 4, rebound: 1, rebound_in_turn: 0}[f]
