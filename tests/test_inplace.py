"""Updates in place: they happen where promised, never where anyone could tell; a failure half-way changes nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.fuzz.settings import Fault, faults
from tilewise.backend.host import steps
from tilewise.store import pool

N = 100
RECORDED = {"eager_bytes": 0, "fallback": "silent"}


def made(n: int = N) -> Any:
    return tw.array(np.arange(float(n)))


def place(x: Any) -> int:
    """Where the memory of a known array is."""
    assert x._cell.buf is not None
    return int(x._cell.buf.__array_interface__["data"][0])


@pytest.fixture(params=[True, False], ids=["native", "interpreted"])
def recorded(request: pytest.FixtureRequest) -> Iterator[None]:
    with tw.config(native=request.param, **RECORDED):
        yield


UPDATES: dict[str, Callable[[Any], Any]] = {
    "part": lambda x: x.__setitem__(slice(2, 50), x[2:50] * 2.0 + 1.0),
    "part of another": lambda x: x.__setitem__(slice(0, 9), tw.array(np.ones(9)) * 3.0),
    "number": lambda x: x.__setitem__(slice(5, 7), 4.0),
    "step": lambda x: x.__setitem__(slice(None, None, 2), x[::2] + 1.0),
    "in place": lambda x: x[3:].__iadd__(1.0),
    "two": lambda x: (x[:5].__imul__(2.0), x[50:].__iadd__(1.0)),
}


def test_bytes_turned_round_in_place_are_not_seen_by_what_was_written_before(recorded: None) -> None:
    source = np.arange(5.0)
    x, want = tw.asarray(source), source.copy()
    before, view, seen = x + 1.0, x[1:], np.asarray(x)
    assert x.byteswap(inplace=True) is x
    want.byteswap(inplace=True)
    assert np.array_equal(before.compute(), source + 1.0) and np.array_equal(seen, source)
    assert np.array_equal(x.compute(), want) and np.array_equal(view.compute(), want[1:])
    assert source.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("name", UPDATES)
def test_the_buffer_stays(recorded: None, name: str) -> None:
    x, want = made(), np.arange(float(N))
    at = place(x)
    UPDATES[name](x)
    UPDATES[name](want)
    assert np.array_equal(x.compute(), want)
    assert place(x) == at


@pytest.mark.parametrize("name", UPDATES)
def test_fortran_order_too(recorded: None, name: str) -> None:
    x, want = tw.array(np.ones((N, 60), order="F")), np.ones((N, 60))
    at = place(x)
    UPDATES[name](x[:, 1])
    UPDATES[name](want[:, 1])
    assert np.array_equal(x.compute(), want)
    assert place(x) == at


READERS: dict[str, Callable[[Any], Any]] = {
    "recorded": lambda x: x * 2.0,
    "recorded view": lambda x: x[::2] + 0.0,
    "reduction": lambda x: x.sum(),
    "export": np.asarray,
    "export of a view": lambda x: np.asarray(x[3:]),
    "copy": lambda x: x.copy(),
    "cast": lambda x: x.astype("float32"),
    "number": lambda x: x[7] + 0.0,
    "mask": lambda x: x[x > 10.0],
    "gather": lambda x: x[[3, 4, 5]],
    "memoryview": lambda x: memoryview(np.asarray(x)),
}


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("reader", READERS)
def test_readers_keep_their_value(recorded: None, name: str, reader: str) -> None:
    x, want = made(), np.arange(float(N))
    y = READERS[reader](x)
    kept = np.array(READERS[reader](want))
    UPDATES[name](x)
    UPDATES[name](want)
    assert np.array_equal(x.compute(), want)
    assert np.array_equal(np.asarray(y), kept)
    assert np.array_equal(x.compute(), want)


def test_a_dead_export_does_not_count(recorded: None) -> None:
    x = made()
    at = place(x)
    seen = np.asarray(x)
    x[2:50] += 1.0
    x.compute()
    assert place(x) != at
    assert seen[2] == 2.0
    at = place(x)
    seen = np.asarray(x)
    del seen
    x[2:50] += 1.0
    x.compute()
    assert place(x) == at


def test_a_loop_stays_in_its_buffer(recorded: None) -> None:
    x, want = made(), np.arange(float(N))
    at = place(x)
    for _ in range(20):
        x[1:-1] = x[1:-1] * 0.5
        want[1:-1] = want[1:-1] * 0.5
    assert np.array_equal(x.compute(), want)
    assert place(x) == at


def test_neighbours_need_a_second_buffer(recorded: None) -> None:
    x, want = made(), np.arange(float(N))
    for _ in range(5):
        x[1:-1] = x[:-2] + x[2:]
        want[1:-1] = want[:-2] + want[2:]
    assert np.array_equal(x.compute(), want)


def rows_after_rows(np: Any, y: Any, x: Any) -> Any:
    for t in range(1, len(x)):
        y[t] = 0.5 * y[t - 1] + x[t]
    return y


def columns_after_columns(np: Any, y: Any, x: Any) -> Any:
    for t in range(x.shape[1] - 2, -1, -1):
        y[:, t] -= x[:, t] * y[:, t + 1]
    return y


def red_and_black(np: Any, y: Any, x: Any) -> Any:
    for _ in range(3):
        y[::2] = y[1::2] + x[::2]
        y[1::2] = y[::2] - x[1::2]
    return y


@pytest.mark.parametrize("program", [rows_after_rows, columns_after_columns, red_and_black])
def test_other_parts_of_the_buffer_may_be_read(recorded: None, program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is not what is read, though both lie between the same ends: nothing is copied."""
    copied: list[Any] = []
    real = steps.copy_around
    monkeypatch.setattr(steps, "copy_around", lambda *args: copied.append(args) or real(*args))
    X, Y = np.random.default_rng(2).normal(size=(2, 8, 10))
    want, compiled = program(np, Y.copy(), X), tw.jit(lambda y, x: program(tw, y.copy(), x))
    y, x = tw.array(Y), tw.asarray(X)
    assert np.array_equal(np.asarray(program(tw, y, x)), want)
    for _ in range(4):
        assert np.array_equal(np.asarray(compiled(tw.asarray(Y), x)), want)
    assert not copied


def test_parts_that_overlap_are_copied(recorded: None) -> None:
    Y = np.random.default_rng(2).normal(size=(9, 10))
    for first, second in (
        (np.s_[1:], np.s_[:-1]),
        (np.s_[::2], np.s_[4::-1]),
        (np.s_[:, 1:], np.s_[:, :-1]),
        (np.s_[1:-1], np.s_[2:]),
        (np.s_[:5], np.s_[4:]),
    ):
        want, y = Y.copy(), tw.array(Y)
        for a in (want, y):
            a[first] = a[second] * 2 + 1
            a[first] += a[second]
        assert np.array_equal(np.asarray(y), want), (first, second)


def test_both_ends_of_a_pending_view(recorded: None) -> None:
    x, want = made(), np.arange(float(N))
    y = x[10:20]
    x[:15] += 1.0
    y *= 3.0
    want[:15] += 1.0
    want[10:20] *= 3.0
    assert np.array_equal(y.compute(), want[10:20])
    assert np.array_equal(x.compute(), want)


# -- failures --------------------------------------------------------------------------------------------------------


def _program(x: Any, m: Any) -> tuple[Any, ...]:
    """Several updates of one buffer, with steps between them that can fail."""
    x[2:50] += 1.0
    a = m.cumsum(x)
    x[10:60] *= 2.0
    b = m.sort(x)[::-1] + a
    x[::3] -= b[::3] % 3.0
    c = m.cumsum(x[5:]) + 1.0
    x[0] = 7.0
    return a, b, c


@pytest.mark.parametrize("every", range(1, 14))
def test_a_failing_step_changes_nothing(recorded: None, every: int) -> None:
    want = np.arange(float(N))
    expected = _program(want, np)
    x = made()
    with tw.config(flush=False):
        results = _program(x, tw)
        order = [x, *results] if every % 2 else [*results, x]
        with faults(every):
            for y in order * 3:
                try:
                    y.compute()
                except Fault:
                    continue
        for y, e in zip([x, *results], [want, *expected], strict=True):
            assert np.array_equal(y.compute(), e)


@pytest.mark.parametrize("step", range(1, 8))
def test_noted_values_are_not_overwritten(recorded: None, step: int) -> None:
    """After one leaf is overwritten, values on the way are kept on their nodes; a later update must not spoil them."""
    with tw.config(flush=False):
        x, z = made(), made()
        z[3:9] += 1.0  # overwrites a leaf early
        y = tw.cumsum(x)
        w = y * 1.0  # reads y after it has been updated elsewhere
        y[1:20] *= 2.0
        y[5:7] = tw.sort(y)[5:7] + z[5:7]
        total = y.sum() + z.sum()
        with faults(step):
            for _ in range(3):
                try:
                    total.compute()
                except Fault:
                    continue
        a, b = np.cumsum(np.arange(float(N))), np.arange(float(N))
        b[3:9] += 1.0
        c = a.copy()
        c[1:20] *= 2.0
        c[5:7] = np.sort(c)[5:7] + b[5:7]
        assert np.array_equal(w.compute(), a)
        assert np.array_equal(y.compute(), c)
        assert np.array_equal(z.compute(), b)
        assert float(total) == c.sum() + b.sum()


@contextmanager
def interrupted(after: int) -> Iterator[None]:
    """Ctrl-C arrives while a kernel (or a write) is at work, and again."""
    real, count = {n: getattr(steps, n) for n in ("run_pass", "run_write")}, 0

    def pressing(f: Any) -> Any:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            result = f(*args, **kwargs)
            if count == after:
                os.kill(os.getpid(), signal.SIGINT)
                sum(range(1000))  # the handler runs between bytecodes
            return result

        return step

    for n, f in real.items():
        setattr(steps, n, pressing(f))
    try:
        yield
    finally:
        for n, f in real.items():
            setattr(steps, n, f)


@pytest.mark.parametrize("after", range(1, 7))
def test_ctrl_c_changes_nothing(recorded: None, after: int) -> None:
    want = np.arange(float(N))
    expected = _program(want, np)
    x = made()
    with tw.config(flush=False):
        results = _program(x, tw)
        with interrupted(after), suppress(KeyboardInterrupt):
            x.compute()
        for y, e in zip([x, *results], [want, *expected], strict=True):
            assert np.array_equal(y.compute(), e)


def test_threads_share_arrays(recorded: None) -> None:
    """Many threads record and force on shared operands, while one updates its own array in place."""
    shared = made()
    errors: list[str] = []

    def work(k: int) -> None:
        with tw.config(native=False, **RECORDED):
            mine = shared * float(k)
            for i in range(20):
                mine[i : i + 9] += shared[i : i + 9]
                if i % 7 == k % 7:
                    mine.compute()
            want = np.arange(float(N)) * k
            for i in range(20):
                want[i : i + 9] += np.arange(float(N))[i : i + 9]
            if not np.array_equal(mine.compute(), want):
                errors.append(f"thread {k}")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # an evaluation in one thread, recording in another
    try:
        for _ in range(6):
            workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
            for w in workers:
                w.start()
            for w in workers:
                w.join()
    finally:
        sys.setswitchinterval(before)
    assert errors == []
    assert np.array_equal(shared.compute(), np.arange(float(N)))


@pytest.mark.parametrize("native", [True, False])
def test_equal_work_of_two_arrays_one_of_which_is_written(native):
    """Both arrays hang on one node; the one that is evaluated first must not become the other's buffer."""
    a, b = np.arange(100), np.zeros(100)
    with tw.config(native=native, **RECORDED):
        x, y = tw.asarray(a), tw.asarray(b)
        kept, written = y > x - 50, y > x - 50
        written.flat = True
        assert np.array_equal(np.asarray(kept), b > a - 50)
        assert np.asarray(written).all()
        assert np.array_equal(kept.compute(), b > a - 50)


@pytest.mark.parametrize("show", [lambda y: y.T, lambda y: y.reshape(-1), lambda y: y.T.reshape(300, 20, 10)])
def test_a_result_that_shows_all_of_an_unnamed_value_is_not_copied(show):
    x = np.arange(60_000.0).reshape(200, 300)
    f = tw.jit(lambda x: show(tw.sqrt(x) + 1))
    with tw.config(eager_bytes=0):
        for _ in range(3):
            given = tw.asarray(x)
            pool.reset_peak()
            start = pool.peak_bytes()
            got = tw.evaluate(f(given))
            assert pool.peak_bytes() - start < 2 * x.nbytes
            np.testing.assert_array_equal(np.asarray(got), show(np.sqrt(x) + 1))
            got[...] = 7
            assert (np.asarray(got) == 7).all() and x[0, 1] == 1


def test_results_that_show_one_value_are_apart():
    x = np.arange(60_000.0).reshape(200, 300)
    given = tw.asarray(x)
    with tw.config(eager_bytes=0):
        f = tw.jit(lambda x: (lambda y: (y.T * 1, tw.copy(y), tw.transpose(y + 0)))(tw.sqrt(x)))
        one, two, three = f(given)
        tw.evaluate(one, two, three)
        one[0], two[0], three[0] = 1, 2, 3
        for got, value, expected in ((one, 1, np.sqrt(x).T), (two, 2, np.sqrt(x)), (three, 3, np.sqrt(x).T)):
            expected = expected.copy()
            expected[0] = value
            np.testing.assert_array_equal(np.asarray(got), expected)
    np.testing.assert_array_equal(np.asarray(given), x)


@pytest.mark.parametrize("same", [tw.array_equal, tw.array_equiv], ids=["equal", "equiv"])
@pytest.mark.parametrize("every", range(1, 12))
def test_a_failing_evaluation_is_no_difference(same: Any, every: int) -> None:
    """NumPy's code takes any exception of its operands for one."""
    x = tw.arange(2)
    with tw.config(eager_bytes=0, native=False, fallback="silent"), faults(every):
        for _ in range(5):
            with suppress(Fault):
                x[...].flat = 2
        with suppress(Fault):
            assert same(x[-2], x[-2])


def test_views_without_elements_keep_their_strides_when_their_base_is_written() -> None:
    """NumPy lays the result of a reduction out by them, even if there is nothing to reduce."""

    def program(xp: Any) -> Any:
        x = xp.asarray(np.zeros((1, 2, 0), np.int64).copy()).T
        view = xp.tile(x, 2)  # of nothing: no copy
        x %= x
        return view.strides, view.swapaxes(0, 2).strides, xp.prod(view.swapaxes(0, 2), axis=2).strides

    with tw.config(eager_bytes=0):
        assert program(tw) == program(np)
