"""Threads: all parts once, errors and interrupts, several launchers, forks, copies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import tilewise as tw
from tests.kernel.support import call, one_op
from tilewise.backend import threads


@pytest.fixture(autouse=True)
def same_threads_after() -> Iterator[None]:
    before = threads.get_threads()
    yield
    threads.set_threads(before)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("parts", [0, 1, 2, 3, 50])
def test_every_part_once(count: int, parts: int) -> None:
    threads.set_threads(count)
    for _ in range(20):
        seen: list[int] = []
        threads.run(seen.append, parts)
        assert sorted(seen) == list(range(parts))


def test_an_exception_arrives_and_the_team_goes_on() -> None:
    threads.set_threads(3)

    def work(i: int) -> None:
        time.sleep(0.001)
        if i == 3:
            raise ValueError("part 3")

    for _ in range(10):
        with pytest.raises(ValueError, match="part 3"):
            threads.run(work, 8)
        test_every_part_once(3, 8)


def test_an_interrupt_waits_for_the_helpers() -> None:
    threads.set_threads(2)
    running = []

    def work(i: int) -> None:
        running.append(i)
        time.sleep(0.2)
        running.remove(i)

    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        threads.run(work, 2)
    timer.join()
    assert len(running) <= 1  # only the interrupted part of this thread did not end
    test_every_part_once(2, 5)


def test_many_launchers_at_once() -> None:
    threads.set_threads(3)
    kernel = one_op("add", ("float64", "float64"), "float64")
    x = np.arange(200_000.0)
    wrong = []

    def launch() -> None:
        for _ in range(30):
            (y,) = call(kernel, x.shape, [x, x])
            if not (y == 2 * x).all():
                wrong.append(1)

    users = [threading.Thread(target=launch) for _ in range(4)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not wrong


def _in_child(queue: multiprocessing.Queue[bool]) -> None:
    x = np.arange(2_000_000.0)
    (y,) = call(one_op("add", ("float64", "float64"), "float64"), x.shape, [x, x])
    queue.put(bool((y == 2 * x).all()))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork() -> None:
    threads.set_threads(2)
    test_every_part_once(2, 4)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=20)
    child.join()


def test_nested_launch_does_not_wait_for_itself() -> None:
    threads.set_threads(2)
    seen: list[int] = []
    threads.run(lambda i: threads.run(seen.append, 3), 4)
    assert len(seen) == 12


@pytest.mark.parametrize("count", [1, 2, 5])
def test_copy(count: int) -> None:
    threads.set_threads(count)
    src = np.random.default_rng(0).normal(size=(700, 901))
    for dst in (np.empty((700, 901)), np.empty((700, 901), order="F"), np.empty((1400, 901))[::2]):
        threads.parallel_copy(dst, src)
        assert (dst == src).all()
    row = np.empty((700, 901))
    threads.parallel_copy(row, src[0])
    assert (row == src[0]).all()


def test_parallel_for() -> None:
    x = np.arange(1000.0)
    y = np.empty_like(x)
    threads.parallel_for(lambda a, b: np.multiply(x[a:b], 2, out=y[a:b]), [(0, 300), (300, 301), (301, 1000)])
    assert (y == 2 * x).all()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_setting_says_how_many(count: int) -> None:
    """tw.config(threads=…) holds for launches inside of it, whatever the cores."""
    threads.set_threads(3)
    seen: set[int] = set()
    ready = threading.Barrier(count)

    def work(_: int) -> None:
        seen.add(threading.get_ident())
        ready.wait(timeout=10)  # every part on a thread of its own

    with tw.config(threads=count):
        assert threads.get_threads() == count
        threads.run(work, count)
        with tw.config(eager_bytes=0):
            x = np.arange(400_000.0)
            assert float((tw.asarray(x) * 2).sum()) == x.sum() * 2
    assert len(seen) == count and threads.get_threads() == 3
