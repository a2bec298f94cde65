"""A fork in the middle of use: the child computes with the code it inherits, compiles, and has threads of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

import tilewise as tw
from tests.kernel.support import call, one_op
from tilewise.backend import threads
from tilewise.backend.llvm.compile import build
from tilewise.kernel.loops import Instr, Kernel, Output

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
F = "float64"
N = 500_000  # enough for several threads
TURNS = 6


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = threads.get_threads()
    threads.set_threads(2)
    yield
    threads.set_threads(before)


def scaled(number: float) -> Kernel:
    """A kernel that nobody has compiled yet."""
    body = (Instr(f"const:{number!r}", (), F), Instr("multiply", (0, 1), F))
    return Kernel((F,), (), body, (Output(2),), (False,))


def computes(number: float) -> bool:
    """Known code and new code, both on all threads."""
    x = np.arange(float(N))
    (twice,) = call(one_op("add", (F, F), F), (N,), [x, x])
    (other,) = call(scaled(number), (N,), [x])
    return bool((twice == 2 * x).all() and (other == number * x).all())


def in_child(work: Callable[[], bool]) -> bool:
    """Whether work() is true in a fork of this process, within a minute."""
    child = os.fork()
    if child == 0:
        result = 1
        try:
            result = 0 if work() else 2
        finally:
            os._exit(result)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGABRT)  # pytest prints what it waits for
    os.waitpid(child, 0)
    return False


class Busy:
    """Another thread of this process that computes, and compiles new kernels, until it is told to stop."""

    def __init__(self) -> None:
        self.turns = 0
        self.wrong = 0
        self._stop = False
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop:
            self.wrong += not computes(self.turns + 0.5)
            self.turns += 1

    def __enter__(self) -> Busy:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop = True
        self._thread.join()


def test_a_child_computes() -> None:
    assert computes(0.25)
    assert in_child(lambda: computes(0.25) and computes(0.125))


def test_forks_while_other_threads_compute_and_compile() -> None:
    with Busy() as busy:
        for turn in range(TURNS):
            assert in_child(lambda: computes(1000.5 + turn)), turn  # noqa: B023
    assert busy.turns and not busy.wrong


def test_a_fork_waits_for_the_compiler() -> None:
    """The lock of the compiler is free in the child, whoever held it."""
    held = threading.Event()

    def hold() -> None:
        with build.lock:
            held.set()
            time.sleep(0.2)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    assert in_child(lambda: build.lock.acquire(timeout=5))
    holder.join()


def test_a_grandchild_computes() -> None:
    assert computes(3.5)
    assert in_child(lambda: in_child(lambda: computes(4.5)))


def test_a_pool_of_forked_processes() -> None:
    assert computes(0.5)
    with Busy(), multiprocessing.get_context("fork").Pool(2) as pool:
        assert all(pool.map(computes, [5.5, 6.5, 7.5, 5.5]))


def test_a_fork_while_another_thread_evaluates() -> None:
    a = np.arange(2100.0).reshape(300, 7)
    stop = threading.Event()

    def work(k: int) -> bool:
        with tw.config(eager_bytes=0):
            return bool(np.allclose((tw.sqrt(tw.asarray(a)) + k).sum(0).compute(), (np.sqrt(a) + k).sum(0)))

    def others() -> None:
        k = 0
        while not stop.is_set():
            work(k)
            k += 1

    work(0)  # what is imported in the middle of a fork stays half imported, in any program
    thread = threading.Thread(target=others, daemon=True)
    thread.start()
    try:
        for k in range(4):
            assert in_child(partial(work, k)), k
    finally:
        stop.set()
        thread.join(10)
