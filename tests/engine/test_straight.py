"""Lines of native calls: what a plan gives step by step, call after call, and nothing of an earlier call changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Retune
from tilewise.backend.llvm.replay import calls
from tilewise.backend.llvm.replay.calls import Line
from tilewise.backend.llvm.replay.entries import Native
from tilewise.store import pool

rng = np.random.default_rng(5)


def diffuse(np: Any, u: Any) -> Any:
    u = u.copy()
    for _ in range(6):
        u[1:-1, 1:-1] += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    return u


def padded(np: Any, x: Any) -> Any:
    wide = np.pad(x, 1, mode="edge")
    return wide[:-2, 1:-1] - wide[2:, 1:-1]


def shifted(np: Any, x: Any) -> Any:
    y = x * 2
    y[1:] = y[:-1]
    y[0] = 7
    y[:, ::2] = x[:, ::2] - 1
    return y


def counted(np: Any, x: Any) -> Any:
    steps = np.arange(x.shape[0]) * 1
    steps[0] = x.shape[1]
    steps[-1:] += 4
    return steps, np.arange(x.shape[0]) + steps


def peaks(np: Any, x: Any) -> Any:
    y = np.moveaxis(x[:, :, None] * np.arange(3), 1, 0)
    top = np.maximum(y[:-1], y[1:])  # memory in the order of axes 1, 0, 2
    return np.moveaxis(np.maximum(top[:, :-1], top[:, 1:]), 1, 0), top - 1


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "a chain": lambda np, x: (x * 2 + 1) / (x * x + 3),
    "a number on the way": lambda np, x: (x - x.min()) / (x.max() - x.min() + 1),
    "one of some numbers": lambda np, x: (x - x.sum(0)[-1], np.maximum(x * 2, np.full(3, 5)[1]) - (x + 1)[0, 0]),
    "rows and columns": lambda np, x: (x.sum(0), x.sum(1) * 2, x.mean(), (x - x.mean(1, keepdims=True)).var()),
    "time steps": diffuse,
    "padding": padded,
    "writes": shifted,
    "tensor products": lambda np, x: np.tensordot(np.tensordot(x, x * 2, axes=(0, 0)) + 1, x, axes=([1], [1])) - 1,
    "a product by BLAS": lambda np, x: np.maximum(x @ x.T, 1) * 2 - 1,
    "a sort": lambda np, x: np.sort(x + 1, axis=0)[1:] - np.sort(x + 1, axis=0)[:-1],
    "views": lambda np, x: (x.T[::-1] + 1, x[1:, ::2].T * 3),
    "two results of one pass": lambda np, x: (lambda y: (y + 1, y * y))(np.abs(x)),
    "positions": lambda np, x: (x.argmin(1), (x > 0).any(0)),
    "scans": lambda np, x: np.cumsum(x, axis=1) - x,
    "distances": lambda np, x: ((x[:, None, :] - x[None, :3]) ** 2).sum(-1),
    "pairs": lambda np, x: np.abs(np.abs(x[:, None, :] - x[::-1] * 2).sum(-1) + 1).sum(1),
    "arithmetic on numbers": lambda np, x: ((x.sum() - x.min()) * 2.5 / np.sqrt(np.abs(x.max()) + 1), x.sum() ** 3),
    "a range that is written to": counted,
    "axes in another order": peaks,
    "a constant": lambda np, x: x * np.arange(x.shape[1]) + np.eye(*x.shape),
}
SHAPES = [(1, 1), (4, 3), (17, 33), (0, 5), (60, 70)]


def arrays(made: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(m) for m in (made if isinstance(made, tuple) else (made,)))


def lines_of(f: Any) -> list[Line]:
    plans = [p for p in f._kept.values() if getattr(p, "bound", None) is not None]
    return [line for p in plans for line in p.bound[2]._kept.values() if line is not None]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_call_after_call(name: str, dtype: str) -> None:
    program = PROGRAMS[name]
    if dtype == "complex128" and name in ("a product by BLAS", "a sort", "positions", "a number on the way"):
        program = lambda np, x, p=program: p(np, x.real)  # noqa: E731
    for shape in SHAPES:
        f, g = (tw.jit(lambda x: program(tw, x)) for _ in "fg")
        earlier = []
        for turn in range(5):
            x = (rng.normal(size=shape) * 9).astype(dtype)
            try:
                with np.errstate(all="ignore"):
                    expected = arrays(program(np, x))
            except Exception as error:  # of empty arrays, and of those with too few rows
                with tw.config(fallback="silent"), pytest.raises(type(error)):
                    arrays(f(tw.asarray(x)))
                continue
            with tw.config(fallback="silent"):
                with tw.profile():  # step by step
                    usual = arrays(g(tw.asarray(x)))
                got = f(tw.asarray(x))
            for k, (a, b, c) in enumerate(zip(arrays(got), usual, expected, strict=True)):
                assert a.dtype == c.dtype and a.shape == c.shape
                assert a.tobytes() == b.tobytes(), (shape, turn, k)
                np.testing.assert_allclose(a, c, rtol=1e-4 if dtype == "float32" else 1e-9, atol=1e-4)
            earlier.append((got, [a.copy() for a in arrays(got)]))
        for got, kept in earlier:
            for a, b in zip(arrays(got), kept, strict=True):
                assert a.tobytes() == b.tobytes()


WITH_A_LINE = (
    "a chain, a number on the way, one of some numbers, time steps, padding, writes, a sort, axes in another order"
).split(", ")


@pytest.mark.parametrize("name", WITH_A_LINE)
def test_there_is_a_line(name: str) -> None:
    program = PROGRAMS[name]
    f = tw.jit(lambda x: program(tw, x))
    for _ in range(3):
        f(tw.asarray(rng.normal(size=(17, 33))))
    assert len(lines_of(f)) == 1


@pytest.mark.parametrize("sizes", [(400, 2), (2, 400)], ids=["large first", "small first"])
def test_what_a_line_is_made_of_hangs_on_its_own_sizes(sizes: tuple[int, int], no_plans: None) -> None:
    """Large arrays share tiles; small ones of the same plan do not, whichever were there before."""

    def softmax(x: Any) -> Any:
        e = tw.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    native = {}
    for rows in sizes:
        f, x = tw.jit(softmax), rng.normal(size=(rows, 500))
        for _ in range(6):
            got = np.asarray(f(tw.asarray(x)))
        np.testing.assert_allclose(got.sum(1), 1)
        (line,) = lines_of(f)
        native[rows] = all(type(item) is Native for item in line._items)
    assert native == {2: True, 400: False}


def test_memory_order_of_results() -> None:
    x = rng.normal(size=(17, 33))
    f = tw.jit(lambda x: peaks(tw, x))
    for _ in range(4):
        assert [a.strides for a in arrays(f(tw.asarray(x)))] == [a.strides for a in peaks(np, x)]


def test_windows_of_one_array_count_once() -> None:
    """Nine windows of an array that the L2 cache holds are little work: no step of its own, no threads."""
    x = rng.normal(size=(302, 302))

    def smooth(x: Any) -> Any:
        return sum((i + 1) * x[i : 300 + i, j : 300 + j] for i in range(3) for j in range(3))

    f = tw.jit(smooth)
    with tw.config(threads=2):
        for _ in range(4):
            np.testing.assert_array_equal(np.asarray(f(tw.asarray(x))), smooth(x))
    ((item,),) = [line._items for line in lines_of(f)]
    assert type(item) is Native


def test_operands_are_turned_by_calls_of_the_line() -> None:
    """A contraction reads panels, which are copied in each call; and there is nothing beside the native calls."""
    f = tw.jit(lambda x, y: (np.sqrt(((x[:, None, :] - y) ** 2).sum(-1)) + 1).sum(1))
    for turn in range(4):
        x, y = rng.normal(size=(50, 3)) + turn, rng.normal(size=(2, 75, 3))[turn % 2]
        want = (np.sqrt(((x[:, None, :] - y) ** 2).sum(-1)) + 1).sum(1)
        np.testing.assert_allclose(np.asarray(f(tw.asarray(x), tw.asarray(y))), want, rtol=1e-12)
    (line,) = lines_of(f)
    assert [type(item).__name__ for item in line._items] == ["Native"]


def test_floats_change_from_call_to_call() -> None:
    f = tw.jit(lambda x, a, b: (x * a + b) / a)
    x = rng.normal(size=50)
    for a, b in ((1.0, 2.0), (3.0, 0.5), (-2.0, 1e300), (1.0, 2.0), (float("nan"), 0.0)):
        np.testing.assert_array_equal(np.asarray(f(tw.asarray(x), a, b)), (x * a + b) / a)
    assert len(lines_of(f)) == 1


def test_arguments_that_lie_otherwise() -> None:
    f = tw.jit(lambda x, y: (x + 1) * y - x)
    base = rng.normal(size=(40, 40))
    views = [base[:20, :20], base[::2, ::2], base[:20, :20].T, base[20:, 20:].copy(), np.asfortranarray(base[:20, :20])]
    for _ in range(4):
        for a in views:
            for b in (a, views[0], views[3]):
                x, y = tw.asarray(base), tw.asarray(base)
                given = [tw.asarray(a), tw.asarray(b)] if a is not b else [tw.asarray(a)] * 2
                np.testing.assert_array_equal(np.asarray(f(*given)), (a + 1) * b - a)
                np.testing.assert_array_equal(
                    np.asarray(f(x[:20, :20], y[20:, 20:])), (base[:20, :20] + 1) * base[20:, 20:] - base[:20, :20]
                )
                np.testing.assert_array_equal(  # parts of one array
                    np.asarray(f(x[:20, :20], x[10:30, 10:30])),
                    (base[:20, :20] + 1) * base[10:30, 10:30] - base[:20, :20],
                )


def test_results_may_be_written_to_and_given_again() -> None:
    f = tw.jit(lambda x: x * 0.5 + 1)
    x, expected = tw.asarray(np.arange(30.0)), np.arange(30.0)
    for _ in range(6):
        x, expected = f(x), expected * 0.5 + 1
        x[3], expected[3] = 9, 9
    np.testing.assert_array_equal(np.asarray(x), expected)


def test_errors_of_a_step_reach_the_user() -> None:
    f = tw.jit(lambda x: tw.linalg.cholesky(x + 0) * 2)
    good, bad = np.eye(3), -np.eye(3)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(f(tw.asarray(good))), good * 2)
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError):
            np.asarray(f(tw.asarray(bad)))
        np.testing.assert_array_equal(np.asarray(f(tw.asarray(good))), good * 2)


def test_groups_that_share_tiles_are_steps_of_a_line() -> None:
    x, w = rng.normal(size=(6000, 40)), rng.normal(size=40)
    f = tw.jit(lambda x, w: x.T @ (1 / (1 + tw.exp(-(x @ w)))) * 2)
    got = [np.asarray(f(tw.asarray(x), tw.asarray(w))).tobytes() for _ in range(5)]
    assert len(set(got)) == 1 and len(lines_of(f)) == 1
    np.testing.assert_allclose(np.asarray(f(tw.asarray(x), tw.asarray(w))), x.T @ (1 / (1 + np.exp(-(x @ w)))) * 2)


def test_floats_that_the_function_looks_at() -> None:
    f = tw.jit(lambda x, a, b: x * 2 + b if a > 0.5 else x - b)
    x = np.arange(9.0)
    for a in (1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.75, 0.25):
        np.testing.assert_array_equal(np.asarray(f(tw.asarray(x), a, 0.5)), x * 2 + 0.5 if a > 0.5 else x - 0.5)


OFFSET = 1.0


def test_calls_that_are_not_like_the_last_one() -> None:
    """The quick way of a call like the last must not be taken for another kind of call."""
    f = tw.jit(lambda x, y, k=2: (x * k + y * OFFSET, x) if x is not y else (x, x))
    x, y = np.arange(12.0), np.arange(12.0)[::-1].copy()
    given = tw.asarray(x), tw.asarray(y)

    def check(*args: Any) -> None:
        plain = [np.asarray(a) if type(a) is tw.Array else a for a in args]
        k = plain[2] if len(plain) > 2 else 2
        first, second = f(*args)
        same = args[0] is args[1]
        np.testing.assert_array_equal(np.asarray(first), plain[0] if same else plain[0] * k + plain[1] * OFFSET)
        assert second is args[0] and first.dtype == (plain[0] if same else plain[0] * k + plain[1] * OFFSET).dtype

    global OFFSET
    try:
        for _ in range(2):
            for _ in range(4):
                check(*given)
            check(given[0], given[0])
            check(*given, 3)
            check(*given, 3)
            check(given[0][::2], given[1][::2])
            check(given[0].astype("float32"), given[1])
            check(given[1], given[0])
            check(given[0] + 1, x)
            with tw.config(eager_bytes=0):
                check(given[0] + 1, given[1])
            with tw.session(engine="virtual", workers=2):
                check(given[0] + 2, given[1])
            with tw.profile():
                check(*given)
            given[0][3] = OFFSET = OFFSET + 1.5
            check(*given)
            assert [np.asarray(v).tolist() for v in f(y=given[1], x=given[0])][1] == np.asarray(given[0]).tolist()
    finally:
        OFFSET = 1.0


def test_threads_that_call_with_arrays_that_lie_differently() -> None:
    f = tw.jit(lambda x, a: (x * a - 1) / (x * x + 2))
    wide = rng.normal(size=(8, 40))
    kinds = [wide, wide.T.copy().T, wide[::2], wide[:, ::2], wide.astype("float32")]
    wrong: list[Any] = []

    def call(k: int) -> None:
        for turn in range(300):
            x = kinds[(k + turn // 7) % len(kinds)]
            got = np.asarray(f(tw.asarray(wide)[::2] if x is kinds[2] else tw.asarray(x), 0.5 + turn))
            if not np.allclose(got, (x * (0.5 + turn) - 1) / (x * x + 2), rtol=1e-5):
                wrong.append((k, turn))

    threads = [threading.Thread(target=call, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def shared_parts(f: Any) -> list[int]:
    """In how many parts each row of native calls of a function's lines is, where it has the most."""
    native = [item for line in lines_of(f) for item in line._items if type(item) is Native]
    return [1 + max(part for _, part in item._tables) for item in native]


def potential(np: Any, x: Any) -> Any:
    return (x[:, 0] / np.sqrt(((x[:, None, :] - x - 20) ** 2).sum(-1))).sum(1)


def rising(np: Any, x: Any) -> Any:
    """Sums along rows that are summed again: what threads could share has a sum over all rows."""
    return (x - x.min(1)[:, None]).max(0)


@pytest.mark.parametrize("program", [*PROGRAMS.values(), potential, rising])
@pytest.mark.parametrize("count", [2, 3])
def test_the_same_bits_where_threads_share(program: Any, count: int, retune: Retune) -> None:
    for shape in [(1, 1), (2, 3), (17, 33), (60, 70)]:
        x = rng.normal(size=shape) * 9
        found = []
        for share_ns, threads in ((float("inf"), 1), (0.0, count)):
            retune(replay_share_ns=share_ns, replay_phase_ns=0.0)
            f = tw.jit(lambda x: program(tw, x))
            with tw.config(threads=threads, fallback="silent"):
                found.append([[a.tobytes() for a in arrays(f(tw.asarray(x)))] for _ in range(4)])
        assert found[0] == found[1]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_group_is_shared_once_it_is_long(count: int) -> None:
    f = tw.jit(lambda x: potential(tw, x))
    for rows, expected in ((20, 1), (300, count)):
        x = rng.normal(size=(rows, 3)) * 9
        with tw.config(threads=count):
            got = [np.asarray(f(tw.asarray(x))) for _ in range(4)]
        assert shared_parts(f)[-1] == expected
        np.testing.assert_allclose(got[-1], potential(np, x), rtol=1e-12, atol=1e-12)  # summands cancel


def padded(np: Any, x: Any) -> Any:
    """Copies, and a pass that reads what all of them wrote."""
    y = np.empty((x.shape[0] + 2, x.shape[1] + 2))
    y[1:-1, 1:-1] = x
    y[0], y[-1], y[:, 0], y[:, -1] = y[1], y[-2], y[:, 1], y[:, -2]
    return sum(k * y[k : k + x.shape[0], k : k + x.shape[1]] for k in range(3))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_copies_and_lone_passes_are_shared_in_phases(count: int, retune: Retune) -> None:
    retune(replay_share_ns=0.0, replay_phase_ns=0.0)
    f = tw.jit(lambda x: padded(tw, x))
    for order in "CF":
        for k in range(60):
            x = np.asarray(np.random.default_rng(k).random((70, 90)), order=order)
            with tw.config(threads=count):
                np.testing.assert_array_equal(np.asarray(f(tw.asarray(x))), padded(np, x))
    assert set(shared_parts(f)) == {count}


def test_sums_over_all_rows_are_not_shared(retune: Retune) -> None:
    retune(replay_share_ns=0.0)
    f = tw.jit(lambda x: rising(tw, x))
    with tw.config(threads=2):
        for _ in range(4):
            f(tw.asarray(rng.normal(size=(60, 70)))).compute()
    assert shared_parts(f) == [1]


def twice_over(np: Any, x: Any) -> Any:
    """What every part of the rows reads whole is gone before the last pass needs as much memory."""
    v = np.cumsum(x[0])
    a = x * v
    b = np.exp(-abs(a - a.max(axis=1, keepdims=True)) * 1e-3)
    c = np.exp(-abs(b - b.max(axis=1, keepdims=True)))
    return c - c.max(axis=1, keepdims=True)


@pytest.mark.parametrize("count", [2, 5])
def test_memory_is_not_used_again_while_another_part_reads_it(count: int, retune: Retune) -> None:
    retune(replay_share_ns=0.0)
    f = tw.jit(lambda x: twice_over(tw, x))
    with tw.config(threads=count):
        for k in range(60):
            x = np.random.default_rng(k).random((120, 120))
            np.testing.assert_allclose(np.asarray(f(tw.asarray(x))), twice_over(np, x), rtol=1e-9, atol=1e-12)
    assert max(shared_parts(f)) == count


def test_bytes_in_memory_of_the_line() -> None:
    """Which is bytes itself, without a shape."""

    def joined(np: Any, x: Any) -> Any:
        y = x.copy()
        y[1:-1] = 3
        return np.concatenate([y, y * 2], axis=1)

    f = tw.jit(lambda x: joined(tw, x))
    for k in range(4):
        x = np.arange(24, dtype=np.uint8).reshape(4, 6) + np.uint8(k)
        np.testing.assert_array_equal(np.asarray(f(tw.asarray(x))), joined(np, x))
    assert lines_of(f)


def test_a_run_that_becomes_no_line_keeps_little() -> None:
    """Updates that are not in place after all: not every one of their copies is kept."""

    def program(y: Any) -> Any:
        y = y.copy()
        for _ in range(60):
            y[1:] = y[:-1] * 0.5
        return y

    f, y = tw.jit(program), tw.asarray(np.ones(600_000))
    for _ in range(5):
        pool.reset_peak()
        start = pool.peak_bytes()
        tw.evaluate(f(y))
        assert pool.peak_bytes() - start < 6 * y.nbytes + calls.FLAT_BYTES


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize(
    "rolled",
    [
        lambda xp, x: xp.roll(x[:, 0], 1),
        lambda xp, x: xp.roll(xp.roll(x[::2, 1], 1), 1) + 1,
        lambda xp, x: xp.roll(x[:, ::2], 1, axis=0),
    ],
)
def test_views_that_copy_are_made_anew_in_every_run(rolled: Any, n: int) -> None:
    """Parts of columns that lie in one piece are copies: each run has other arguments."""
    jitted = tw.jit(rolled)
    for k in range(6):
        x = np.arange(n * n).reshape(n, n) * 3 + k
        np.testing.assert_array_equal(np.asarray(jitted(tw, tw.asarray(x))), rolled(np, x))
