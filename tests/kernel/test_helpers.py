"""Helpers that wait in native code: every part once, whoever comes in time; they sleep again, and hear Python."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tilewise.backend import cores, threads
from tilewise.backend.llvm.call import helpers, parallel_for
from tilewise.backend.llvm.call.helpers import ASLEEP, WAITING, together
from tilewise.backend.llvm.call.parallel_for import Parts
from tilewise.backend.llvm.compile.build import native
from tilewise.backend.llvm.emit.text import Function
from tilewise.backend.threads import AWAY, CORE, STATE

Counted = tuple[Parts, np.ndarray]

SEVERAL_CORES = pytest.mark.skipif(not cores.LINUX or threads.CORES < 2, reason="there is no choice of cores")


@pytest.fixture(autouse=True)
def two_threads_on_two_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a machine with as many cores as threads: helpers wait in native code."""
    monkeypatch.setattr(threads, "CORES", 8)
    before = threads.get_threads()
    threads.set_threads(2)
    yield
    threads.set_threads(before)


def counting(turns: int) -> Callable[[str], Function]:
    """A function that adds one to a word (geom says which), after some turns of doing nothing."""

    def build(name: str) -> Function:
        fn = Function(name, "ptr %objs, ptr %geom")
        place = fn.let("load i64, ptr %geom, align 8")
        left = fn.hoist("alloca i64, align 8")
        fn.do(f"store volatile i64 {turns}, ptr {left}, align 8")
        fn.do("br label %again")
        fn.label("again")
        now = fn.let(f"load volatile i64, ptr {left}, align 8")
        less = fn.let(f"sub i64 {now}, 1")
        fn.do(f"store volatile i64 {less}, ptr {left}, align 8")
        fn.do(f"br i1 {fn.let(f'icmp sgt i64 {less}, 0')}, label %again, label %count")
        fn.label("count")
        word = fn.let(f"getelementptr i64, ptr %objs, i64 {place}")
        fn.let(f"atomicrmw add ptr {word}, i64 1 monotonic, align 8")
        return fn

    return build


def counted(parts: int, turns: int = 100) -> Counted:
    """Parts that each count in a word of their own."""
    code = native(("test calling", turns), counting(turns))
    return Parts(code, [[[(0, struct.pack("<q", k))] for k in range(parts)]]), np.zeros(parts, np.int64)


def noting(name: str) -> Function:
    """A function that notes in a word of its own how many parts have ended (the first word), and ends."""
    fn = Function(name, "ptr %objs, ptr %geom")
    place = fn.let("load i64, ptr %geom, align 8")
    before = fn.let("load atomic i64, ptr %objs acquire, align 8")
    fn.do(f"store i64 {before}, ptr {fn.let(f'getelementptr i64, ptr %objs, i64 {place}')}, align 8")
    fn.let("atomicrmw add ptr %objs, i64 1 acq_rel, align 8")
    return fn


def go(work: Counted, **more: bool) -> None:
    parts, found = work
    parts.run(lambda: [found.ctypes.data], **more)


def first_helper() -> threads.Helper:
    return threads._team.helpers[0]


def asleep() -> None:
    """Wait until no helper waits for native work."""
    for _ in range(2000):
        if all(h.view[STATE] in (AWAY, ASLEEP) for h in threads._team.helpers):
            return
        time.sleep(0.001)
    raise AssertionError("a helper does not go to sleep")


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("parts", [1, 2, 3, 50])
def test_every_part_once(count: int, parts: int) -> None:
    threads.set_threads(count)
    work = counted(parts)
    for turn in range(200):
        go(work)
        if turn % 50 == 49:
            time.sleep(0.002)  # helpers fall asleep
    assert set(work[1]) == {200}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_phase_begins_when_the_one_before_has_ended(count: int) -> None:
    threads.set_threads(count)
    lengths = (3, 1, 8, 2)
    number = iter(range(1, 1 + sum(lengths)))
    parts = Parts(
        native("test phases", noting), [[[(0, struct.pack("<q", next(number)))] for _ in range(n)] for n in lengths]
    )
    for _ in range(300):
        found = np.zeros(1 + sum(lengths), np.int64)
        parts.run(lambda found=found: [found.ctypes.data])
        first = 0
        for n in lengths:
            assert (found[1 + first : 1 + first + n] >= first).all()
            first += n
        assert found[0] == first


def test_a_helper_waits_for_more_until_it_is_told_to_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    wait, _ = helpers._waiting()
    monkeypatch.setattr(helpers, "_waiting", lambda: (wait, 1 << 60))
    work, runs = counted(8, turns=100_000), 0
    while (not runs or first_helper().view[STATE] != WAITING) and runs < 20_000:
        go(work)
        runs += 1
    assert first_helper().view[STATE] == WAITING
    go(work)
    assert set(work[1]) == {runs + 1}
    threads.run(lambda _: None, 2)
    asleep()


def test_a_helper_that_sleeps_in_native_code_hears_python_and_native_work() -> None:
    work = counted(4, turns=100_000)
    for turn in range(20):
        go(work)
        asleep()
        if turn % 2:
            both = threading.Barrier(2, timeout=5)  # two threads must be there
            threads.run(lambda _, both=both: both.wait(), 2)
    assert set(work[1]) == {20}


@SEVERAL_CORES
def test_a_helper_keeps_off_the_core_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = min(os.sched_getaffinity(0))
    work = counted(8)
    go(work)
    monkeypatch.setattr(cores, "here", lambda: mine)
    first_helper().view[CORE] = mine
    go(work)
    helper = next(t for t in threading.enumerate() if t.name == "tilewise-helper-0")
    assert helper.native_id is not None
    assert os.sched_getaffinity(helper.native_id) == os.sched_getaffinity(0) - {mine}
    assert set(work[1]) == {2}


@SEVERAL_CORES
def test_the_cores_of_a_thread_are_those_that_others_gave_it() -> None:
    every, stop = os.sched_getaffinity(0), threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    assert thread.native_id is not None
    place, first, last = cores.Place(), min(every), max(every)
    for core in (first, last, first):  # not both
        place.keep_off(thread.native_id, core)
        assert os.sched_getaffinity(thread.native_id) == every - {core}
    os.sched_setaffinity(thread.native_id, {first})
    place.keep_off(thread.native_id, first)  # there is no other
    assert os.sched_getaffinity(thread.native_id) == {first}
    stop.set()
    thread.join()
    place.keep_off(thread.native_id, first)


def test_short_work_wakes_nobody() -> None:
    work = counted(4)
    go(work)
    asleep()
    time.sleep(2 * threads.SOON_S)
    go(work, short=True)
    assert first_helper().view[STATE] in (AWAY, ASLEEP)
    time.sleep(0.01)
    assert first_helper().view[STATE] in (AWAY, ASLEEP)
    assert set(work[1]) == {2}


def test_python_work_right_after_native_work() -> None:
    work = counted(4)
    for _ in range(50):
        go(work)
        seen: list[int] = []
        both = threading.Barrier(2, timeout=5)  # two threads must be there

        def part(i: int, seen: list[int] = seen, both: threading.Barrier = both) -> None:
            both.wait()
            seen.append(i)

        threads.run(part, 2)
        assert sorted(seen) == [0, 1]
    assert set(work[1]) == {50}


def test_work_from_several_threads() -> None:
    works = [counted(6, turns=2000) for _ in range(4)]

    def launch(work: Counted) -> None:
        for _ in range(200):
            go(work)

    users = [threading.Thread(target=launch, args=(w,)) for w in works]
    for u in users:
        u.start()
    for u in users:
        u.join()
    assert all(set(found) == {200} for _, found in works)


def test_the_same_parts_from_several_threads() -> None:
    work = counted(6, turns=2000)
    users = [threading.Thread(target=lambda: [go(work) for _ in range(200)]) for _ in range(4)]
    for u in users:
        u.start()
    for u in users:
        u.join()
    assert set(work[1]) == {800}


def test_interrupts_lose_no_part() -> None:
    work, hits = counted(6, turns=2000), 0

    def hit(*_: object) -> None:
        nonlocal hits
        hits += 1
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, hit)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        end = time.perf_counter() + 0.5
        while time.perf_counter() < end:
            with contextlib.suppress(KeyboardInterrupt):
                while time.perf_counter() < end:
                    go(work)
    except KeyboardInterrupt:  # between two attempts
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    counts = set(work[1])
    assert hits and len(counts) == 1  # a run that was interrupted has run or not, as a whole
    go(work)
    assert {n + 1 for n in counts} == set(work[1])


def test_a_launch_in_a_signal_handler_leaves_the_helpers_to_the_one_it_came_upon() -> None:
    """Else another thread could post its work to helpers that are at work."""
    inner, kept = counted(6), []

    def native_work(helpers: object) -> None:
        go(inner)  # as a signal handler may, at any moment of a launch
        kept.append("team" in threads._team.owner)

    threads.run(lambda _: None, 2, native_work)
    assert kept == [True]
    assert not threads._team.owner
    assert set(inner[1]) == {1}


def test_fewer_threads_while_a_launch_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    threads.set_threads(5)
    work = counted(6)
    with monkeypatch.context() as m:  # somebody sets two threads after the launch has counted on five
        m.setattr(parallel_for, "together", lambda helpers, *more: together(helpers[:1], *more))
        go(work)
    assert set(work[1]) == {1}


def test_code_is_there_before_helpers_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that failed to make it would be gone, and launches would wait for it."""
    made: list[int] = []

    def launched(*_: object) -> None:
        made.extend(cached.cache_info().currsize for cached in (helpers._waiting, helpers._calling))

    for module, name in ((helpers, "_waiting"), (helpers, "_calling"), (parallel_for, "taking")):
        monkeypatch.setattr(module, name, functools.cache(getattr(module, name).__wrapped__))
    monkeypatch.setattr(threads, "run", launched)
    go(counted(4))
    assert made == [1, 1]


def _in_child(queue: multiprocessing.Queue[list[int]]) -> None:
    work = counted(6)
    for _ in range(20):
        go(work)
    queue.put(work[1].tolist())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_child_has_helpers_of_its_own() -> None:
    go(counted(6))  # the helper of the parent waits now
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=20) == [20] * 6
    child.join(timeout=20)
    assert child.exitcode == 0
