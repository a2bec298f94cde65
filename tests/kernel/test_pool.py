"""The pool: memory comes back when its last view dies, and not before; bounded; safe with threads, GC and forks."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from tests.conftest import Retune
from tilewise.store import pool

BIG = (1 << 18,)  # float64: 2 MiB


@pytest.fixture(autouse=True)
def empty_pool() -> Iterator[None]:
    gc.collect()
    pool.trim()
    yield
    pool.trim()


def address(a: np.ndarray) -> int:  # type: ignore[type-arg]
    return int(a.ctypes.data)


def test_small_arrays_are_plain() -> None:
    assert pool.empty((10,), np.float64).base is None
    assert pool.empty((0,), np.float64).shape == (0,)
    assert pool.empty((), np.int8).shape == ()


def test_memory_is_used_again() -> None:
    a = pool.empty(BIG, np.float64)
    a[:] = 1
    where = address(a)
    del a
    assert pool.idle_bytes() > 0
    b = pool.empty(BIG, np.float64)
    assert address(b) == where and pool.idle_bytes() == 0


@pytest.mark.parametrize("view", [lambda a: a.reshape(512, 512).T, lambda a: a.reshape(2, -1), lambda a: a.view("c16")])
def test_a_view_that_alone_shows_all_takes_over(view) -> None:  # type: ignore[no-untyped-def]
    a = pool.empty(BIG, np.float64)
    a[:] = np.arange(a.size)
    v = view(a)
    kept, where, strides = v.copy(), address(a), v.strides
    assert pool.taken_over(v) is None  # a has it, too
    other = a[:3]
    del a
    assert pool.taken_over(v) is None  # other shows some of it
    del other
    own = pool.taken_over(v)
    assert own is not None and not isinstance(own.base, np.ndarray) and own.flags.writeable
    assert (address(own), own.shape, own.strides, own.dtype) == (where, kept.shape, strides, kept.dtype)
    del v
    assert pool.idle_bytes() == 0 and (own == kept).all()
    del own
    assert pool.idle_bytes() > 0


def test_other_views_take_over_nothing() -> None:
    a = pool.empty(BIG, np.float64)
    part = a[1:]
    del a
    assert pool.taken_over(part) is None
    assert pool.taken_over(np.zeros((300, 300)).T) is None  # not pooled
    assert pool.taken_over(pool.empty(BIG, np.float64)) is None  # no view


@pytest.mark.parametrize("view", [lambda a: a[3:5], lambda a: a.reshape(2, -1).T[1:], lambda a: a.view(np.int32)[::7],
                                  lambda a: np.asarray(memoryview(a))])  # fmt: skip
def test_a_view_keeps_the_memory(view) -> None:  # type: ignore[no-untyped-def]
    a = pool.empty(BIG, np.float64)
    a[:] = 5.0
    v = view(a)
    kept = v.copy()
    del a
    gc.collect()
    assert pool.idle_bytes() == 0
    pool.empty(BIG, np.float64)[:] = 9.0
    assert (v == kept).all()
    del v
    assert pool.idle_bytes() > 0


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_orders(order: tuple[int, ...]) -> None:
    a = pool.empty((50, 60, 70), np.float32, order)
    assert a.shape == (50, 60, 70) and a.dtype == np.float32
    strides = [a.strides[axis] for axis in order]
    assert strides == sorted(strides, reverse=True) and strides[-1] == 4


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "complex128", ">f8"])
def test_dtypes(dtype: str) -> None:
    a = pool.empty((1 << 20,), dtype)
    a[:] = 1
    assert a.dtype == np.dtype(dtype) and a.sum() == 1 << 20 and a.flags.writeable and a.flags.aligned


def test_idle_memory_is_bounded(retune: Retune, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = pool.Pool()
    monkeypatch.setattr(pool, "_pool", fresh)
    retune(idle_limit_bytes=8 << 20)
    arrays = [pool.empty(BIG, np.float64) for _ in range(16)]
    arrays.clear()
    assert fresh.idle_bytes() <= 16 << 20  # half of the peak
    fresh.trim()
    assert fresh.idle_bytes() == 0


def test_a_bound_holds_for_what_is_in_use_and_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = pool.Pool()
    monkeypatch.setattr(pool, "_pool", fresh)
    pool.bound(20 << 20)
    kept = [pool.empty(BIG, np.float64) for _ in range(4)]
    arrays = [pool.empty(BIG, np.float64) for _ in range(16)]  # more than the bound is not refused
    arrays.clear()
    assert fresh.idle_bytes() == 12 << 20
    kept.append(pool.empty((3 << 18,), np.float64))  # 6 MiB, which no idle block has
    assert fresh.idle_bytes() == 6 << 20
    pool.bound(None)
    kept.clear()
    assert fresh.idle_bytes() == 20 << 20
    with ExitStack() as first, ExitStack() as second:  # as of two threads: those who end first began first
        first.enter_context(pool.bounded(8 << 20))
        second.enter_context(pool.bounded(12 << 20))
        first.close()
        pool.empty(BIG, np.float64)
        assert 0 < fresh.idle_bytes() <= 12 << 20
    arrays = [pool.empty(BIG, np.float64) for _ in range(10)]
    arrays.clear()
    assert fresh.idle_bytes() == 20 << 20


def test_threads_and_garbage_collection() -> None:
    wrong = []

    def use(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            a = pool.empty((int(rng.integers(1 << 15, 1 << 17)),), np.float64)
            a[0] = a[-1] = seed
            cycle = [a]
            cycle.append(cycle)  # type: ignore[arg-type]
            if a[0] != seed or a[-1] != seed:
                wrong.append(seed)

    users = [threading.Thread(target=use, args=(i,)) for i in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not wrong


def test_a_forked_child_has_its_own_copy() -> None:
    a = pool.empty(BIG, np.float64)
    a[:] = 1.0
    child = os.fork()
    if child == 0:
        a[:] = 2.0
        os._exit(0 if (pool.empty(BIG, np.float64).size, a[0]) == (BIG[0], 2.0) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (a == 1.0).all()


def test_what_was_used_longest_ago_goes_first(retune: Retune, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of earlier work must not push out the blocks that a loop takes and gives back."""
    made: list[int] = []
    block = pool._Block
    retune(idle_limit_bytes=16 << 20)
    monkeypatch.setattr(pool, "_pool", pool.Pool())
    monkeypatch.setattr(pool, "_Block", lambda size, used: made.append(size) or block(size, used))
    old = [pool.empty((1 << 17,), np.float64) for _ in range(16)]
    old.clear()
    for _ in range(5):
        big = pool.empty((1 << 20,), np.float64)
        del big
        assert pool.idle_bytes() <= 16 << 20
    assert made == [1 << 20] * 16 + [8 << 20]


def test_in_the_middle_of_something_there_is_other_memory() -> None:
    """A signal handler or a finaliser may come upon a thread that has the lock."""

    def inside() -> None:
        with pool._pool._lock:
            a = pool.empty(BIG, np.float64)
            a[:] = 1
            del a
            pool.trim()
            found.append(pool.idle_bytes())

    found: list[int] = []
    thread = threading.Thread(target=inside, daemon=True)
    thread.start()
    thread.join(10)
    assert found == [0]  # what was lent went straight back to the system


HANDLER = """
import signal, time
import numpy as np, tilewise as tw
from tilewise.store import pool

x, hits = tw.asarray(np.ones(300_000)), 0

def work():
    with tw.config(eager_bytes=0):
        assert (x * 2).sum() == 600_000

def hit(*_):
    global hits
    hits += 1
    work()
    signal.setitimer(signal.ITIMER_REAL, 0.0003)

work(), work()
signal.signal(signal.SIGALRM, hit)
signal.setitimer(signal.ITIMER_REAL, 0.0003)
end = time.monotonic() + 1.5
while time.monotonic() < end:
    pool.empty((300_000,), np.float64)
    with tw.config(eager_bytes=1):
        pass
signal.signal(signal.SIGALRM, signal.SIG_IGN)
assert hits > 10
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_signal_handlers_compute() -> None:
    subprocess.run([sys.executable, "-c", HANDLER], check=True, timeout=60)
