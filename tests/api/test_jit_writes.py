"""tw.jit: functions that write to their arguments, or to views of them: memory is written where NumPy would write."""

from __future__ import annotations

import types
import warnings
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.api.alongside import alongside


def test_writing_to_an_argument(mode: str) -> None:
    @tw.jit
    def push(x: Any, v: float) -> Any:
        x[1:] = x[:-1] * 2.0
        x += v
        return x.sum()

    def run(np: Any, push: Any) -> Any:
        x = np.arange(5.0)
        y = np.arange(10.0)
        totals = [float(push(x, 1.0)), float(push(x, 2.0)), float(push(y[::2], 3.0)), float(push(y[5:], 1.0))]
        return totals, np.asarray(x).tolist(), np.asarray(y).tolist()

    assert run(tw, push) == run(np, push.__wrapped__)
    real = np.arange(3.0)
    push(real, 1.0)
    assert real.tolist() == [1.0, 1.0, 3.0]  # an ndarray is written to as well
    x = tw.arange(4.0)
    part = tw.arange(6.0)

    @tw.jit
    def moved(by: float) -> Any:
        return window + by

    window = part[:3]
    assert moved(1.0).tolist() == [1, 2, 3]
    window = part[3:]
    assert moved(1.0).tolist() == [4, 5, 6]
    both = tw.jit(lambda a, b: a.__setitem__(0, 5.0) or (a + b))
    assert both(x, x).tolist() == [10.0, 2.0, 4.0, 6.0]


def test_results_that_are_views_of_arguments(mode: str) -> None:
    f = tw.jit(lambda x: x[1:])
    x = tw.arange(4.0)
    y = f(x)
    y[0] = 9.0
    assert x.tolist() == [0, 9, 2, 3] and f(x).tolist() == [9, 2, 3]
    pair = tw.jit(lambda x: (z := x + 1, z[1:]))
    a, b = pair(x)
    b[0] = -1
    assert a.tolist() == [1, -1, 3, 4]


def test_arguments_that_are_given_another_shape(mode: str) -> None:
    table = tw.arange(6.0)

    def flat(x: Any) -> Any:
        x.shape = (-1,)
        return x

    def seen(x: Any) -> Any:
        table.shape = (2, *table.shape[:-1], 3)
        return x + table.sum(0)

    f, g = tw.jit(flat), tw.jit(seen)
    for _ in range(3):
        x = tw.ones((2, 3))
        assert f(x) is x and x.shape == (6,)
        table.shape = (6,)
        assert g(tw.zeros(3)).tolist() == [3, 5, 7] and table.shape == (2, 3)


@pytest.mark.parametrize("show", [lambda a: a[::-1], lambda a: a[:, 1:], lambda a: a[:, ::2], lambda a: a.T[:2]])
@pytest.mark.parametrize(
    "write",
    [
        lambda np, v: v.reshape(-1),
        lambda np, v: v.ravel(),
        lambda np, v: v,
        lambda np, v: np.asarray(v, order="C"),
        lambda np, v: np.asarray(v[0], order="F"),
        lambda np, v: np.ascontiguousarray(v.T),
    ],
)
def test_what_is_a_copy_of_a_view_with_gaps_is_not_written_through(mode: str, show: Any, write: Any) -> None:
    def negate(np: Any, x: Any) -> Any:
        part = write(np, x)
        part *= -1
        return x + 0

    f = tw.jit(negate)
    for _ in range(4):
        want = np.arange(1.0, 13.0).reshape(3, 4)
        whole = tw.asarray(want)
        np.testing.assert_array_equal(f(tw, show(whole)), negate(np, show(want)))
        np.testing.assert_array_equal(whole, want)


def test_views_with_gaps_that_keep_their_shape_are_traced() -> None:
    @tw.jit
    def grow(x: Any) -> Any:
        x[1:] += x[:-1] * 2
        return x.sum()

    with tw.config(eager_bytes=0), warnings.catch_warnings():
        warnings.simplefilter("error", tw.PerformanceWarning)
        for _ in range(3):
            want = np.arange(12.0).reshape(3, 4)
            whole = tw.asarray(want.copy())
            part = want[:, ::2]
            part[1:] += part[:-1] * 2
            assert float(grow(whole[:, ::2])) == part.sum()
            np.testing.assert_array_equal(np.asarray(whole), want)
    assert grow.traces == 1


TURN = np.zeros(2)
LAST = TURN[1:]


def swap() -> None:
    np.subtract(1, TURN, out=TURN)


@pytest.mark.parametrize(
    "write",
    [
        lambda: TURN.__setitem__(0, 1 - TURN[0]),
        lambda: TURN.fill(1 - LAST[0]),
        lambda: np.copyto(TURN, 1 - TURN),
        lambda: np.copyto(LAST, 1 - LAST),
        swap,
    ],
)
@pytest.mark.parametrize("look", [False, True])
def test_ndarrays_that_the_function_refers_to_are_written_at_each_call(mode: str, write: Any, look: bool) -> None:
    def f(x: Any, v: float) -> Any:
        write()
        return x + TURN[0] + LAST if not look or v > 0 else x

    def run(np: Any, f: Any) -> Any:
        TURN[:] = 0
        return [(f(np.ones(1), 0.5 + k).tolist(), TURN.tolist()) for k in range(6)]

    assert run(tw, tw.jit(f)) == run(np, f)
    assert TURN.flags.writeable and LAST.flags.writeable


def test_writes_to_ndarrays_are_told_of() -> None:
    @tw.jit
    def count(x: Any) -> Any:
        TURN[0] += 1
        return x + 1

    TURN[:] = 0
    line = count.__wrapped__.__code__.co_firstlineno + 2
    with tw.config(eager_bytes=0), pytest.warns(tw.PerformanceWarning, match=f"a write to an ndarray.*{line}"):
        for _ in range(3):
            count(tw.ones(2))
    assert TURN.tolist() == [3, 0]


def test_ndarrays_of_others_are_written_to_once_in_each_call(mode: str) -> None:
    calls, flag = np.zeros(1), np.zeros(2, int)

    @tw.jit
    def counted(x: Any) -> Any:
        calls[0] += 1
        return x * calls[0]

    @tw.jit
    def turned(x: Any) -> Any:
        np.subtract(1, flag, out=flag)
        return x if x.sum() > 9 else x + flag[0]

    assert [counted(tw.ones(2)).tolist() for _ in range(3)] == [[1, 1], [2, 2], [3, 3]]
    assert [turned(tw.ones(2)).tolist() for _ in range(4)] == [[2, 2], [1, 1], [2, 2], [1, 1]]
    assert calls.tolist() == [3] and flag.tolist() == [0, 0]
    table = np.arange(3.0)

    @tw.jit
    def reads(x: Any) -> Any:
        x[:2] = table[1:]
        return x * table

    assert [reads(tw.ones(3)).tolist() for _ in range(3)] == [[0, 2, 2]] * 3
    assert reads.traces == (mode != "numpy")


def of_an_interface() -> Any:
    class Owner:
        data = np.arange(3.0)
        __array_interface__ = data.__array_interface__

    return np.asarray(Owner())


def of_one_that_became_read_only() -> Any:
    base = np.arange(4.0)
    view = base[1:]
    base.flags.writeable = False
    return view


@pytest.mark.parametrize("make", [of_an_interface, of_one_that_became_read_only])
def test_ndarrays_stay_writeable(mode: str, make: Any) -> None:
    """Also those that NumPy would not make writeable again."""
    a = make()
    f, g = tw.jit(lambda x: x + a.shape[0]), tw.vectorize(lambda v: v + a.shape[0])
    for _ in range(3):
        assert f(tw.ones(3)).tolist() == g(tw.ones(3)).tolist() == [4, 4, 4]
        assert a.flags.writeable


def test_other_threads_write_while_a_function_is_traced() -> None:
    table = np.zeros(3)

    def writer() -> None:
        table[0] = 1.0 - table[0]

    with alongside(writer):
        for k in range(60):
            f = tw.jit(lambda x, k=k: sum([x + table[1:] for _ in range(100)], 1 + k) - 100 * x)
            assert f(tw.ones(2)).tolist() == [1 + k, 1 + k]


def test_writes_by_functions_that_are_arguments_or_lie_in_tuples_and_modules(mode: str) -> None:
    module = types.ModuleType("of_the_users")
    module.TURN, module.swap = TURN, swap  # type: ignore[attr-defined]  # an empty module
    both, each = (TURN, swap), np.vectorize(lambda v: TURN.fill(1 - v) or v, otypes=[float])

    def given(x: Any, f: Any) -> Any:
        f()
        return x + TURN[0]

    for f in (
        lambda x: given(x, swap),
        lambda x: (both[1](), x + TURN[0])[1],
        lambda x: (both[0].fill(1 - TURN[0]), x + TURN[0])[1],
        lambda x: (module.swap(), x + TURN[0])[1],
        lambda x: (module.TURN.fill(1 - TURN[0]), x + TURN[0])[1],
        lambda x: (each(TURN[0]), x + TURN[0])[1],
    ):
        TURN[:] = 0
        g = tw.jit(f)
        assert [g(tw.ones(1)).tolist() for _ in range(6)] == [[2], [1]] * 3
    g = tw.jit(lambda x, f: x + f())
    assert [g(tw.ones(1), lambda: (swap(), TURN[0])[1]).tolist() for _ in range(6)] == [[2], [1]] * 3


def test_shapes_and_files_of_ndarrays(mode: str, tmp_path: Any) -> None:
    a, name = np.arange(4.0), str(tmp_path / "a")

    def shaped(x: Any) -> Any:
        a.shape = 2, 2
        return x + a

    def written(x: Any) -> Any:
        a.tofile(name)
        return x + 1

    f, g = tw.jit(shaped), tw.jit(written)
    for _ in range(4):
        a.shape = (4,)
        assert f(tw.ones((2, 2))).tolist() == [[1, 2], [3, 4]] and a.shape == (2, 2)
        assert g(tw.ones(1)).tolist() == [2]
        (tmp_path / "a").unlink()


def test_writes_to_small_arrays_are_done_at_once(mode: str) -> None:
    def update(A: Any, u: Any, x: Any) -> Any:
        A += np.outer(u, u)
        x[1:] = u[:-1] @ A[:-1, 1:] + x[1:]
        return A.sum(), x + 0.0

    def swap(x: Any, y: Any) -> None:
        t = x + 0.0
        x[:] = y[::-1]
        y[:] = t

    def run(np: Any, update: Any, swap: Any) -> Any:
        out = []
        for turn in range(4):
            A, u, x = np.arange(16.0).reshape(4, 4), np.arange(4.0), np.ones(4) * turn
            held = A.__array__(), x.__array__()
            before = [h.copy() for h in held]
            total, y = update(A, u, x)
            swap(A[0], A[:, 1][::1] if turn == 3 else x)
            swap(A[2], y)
            A[0] += 1.0  # is writeable, and nobody else's
            out += [float(total), A.tolist(), x.tolist(), y.tolist()]
            if np is tw:  # what was handed out stays as it was
                assert [h.tolist() for h in held] == [b.tolist() for b in before]
        f = np.asarray([[1.0, 2.0], [3.0, 4.0]], order="F")
        swap(f[:, 0], f[:, 1])
        return out, np.asarray(f).tolist(), np.asarray(f).flags.f_contiguous

    compiled = tw.jit(update), tw.jit(swap)
    assert run(tw, *compiled) == run(np, update, swap)
    if mode == "default":
        A, u, x = tw.ones((4, 4)), tw.ones(4), tw.ones(4)
        for _ in range(2):
            compiled[0](A, u, x)
            assert A._cell.node is None and x._cell.node is None  # nothing is left to be computed later


def test_large_arrays_of_numpy_are_not_copied(mode: str) -> None:
    if mode != "default":
        pytest.skip("what is recorded or compared keeps what it reads")
    big, x = np.ones((600, 600)), np.ones(600)
    product = tw.jit(lambda a, v: v @ a + 1.0)
    made = product(tw.asarray(big), x)
    assert made._cell.node is None and made.tolist() == [601.0] * 600  # known: nothing has to be kept for later
    made = product(big, x)
    big[:] = 5.0
    assert made.tolist() == [601.0] * 600
