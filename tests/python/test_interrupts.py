"""Ctrl-C ends compiled loops, and arrays are as they were at that point."""

import dis
import os
import signal
import threading
import time

import numpy as np
import pytest

import tilewise as tw
from tests.effort import SOME_OR_ALL
from tilewise.backend.llvm.program import poll, team


def counts(a):
    while True:
        a[0] += 1


def nested(a, n):
    for i in range(n):
        for j in range(n):
            a[(i + j) % 8] += 1.0
    return j


def flat(a, n):
    for i in range(n):
        a[i % 8] += 1.0
    return i


def inside(a, n):
    for i in range(n):
        k = a[i % 8]
        while k >= 0:
            k = (k + 1) % 1000
            a[0] += 1
    return i


def side_by_side(a, n):
    b = np.zeros(n)
    for i in range(n):
        x = 1.0
        for _ in range(100_000):
            x = x * 0.999 + 0.5
        b[i] = x
    a[0] = b[0]
    return i


CALLS = [(counts,), (nested, 10**6), (flat, 10**12), (inside, 3), (side_by_side, 10**6)]


@pytest.mark.parametrize("call", CALLS, ids=["while", "nest", "flat", "inside", "threads"])
def test_an_interrupt_is_heard_in_the_middle_of_loops(call):
    f, *rest = call
    a = np.zeros(8, np.int64 if f is counts else float)
    compiled = tw.jit(f, strict=True)
    compiled._source.code_for((a, *rest), {})  # compiled before the clock starts
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        compiled(a, *rest)
    assert time.perf_counter() - start < 30 and (a.sum() > 0 or f is side_by_side)
    if f in (nested, flat, side_by_side):
        assert compiled(np.zeros(8), 3) == 2


def climbs(v):
    n = 0.0
    while v > 0.5:
        n = n + 1.0
        if n > 1e5:
            v = 0.0
    return n


def test_an_interrupt_ends_functions_of_elements(monkeypatch, same_settings_after_each_test):
    """It was taken for something that Python has to do instead, element by element."""
    tw.config(eager_bytes=0)
    f = tw.vectorize(climbs)
    f(tw.asarray(np.zeros(10))).compute()  # compiled before the clock starts

    def python(self, args):
        raise AssertionError("made again by Python")

    monkeypatch.setattr("tilewise.api.functions.native.loop.Loop.python", python)
    x = tw.evaluate(tw.asarray(np.ones(20_000)) * 1.0)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        f(x).compute()


def endless(v):
    n = 1.0
    while n > 0.5:
        n = n * 0.5 + v
    return n


@pytest.mark.parametrize("size", [4, 100_000])
def test_an_interrupt_ends_an_element(size, same_settings_after_each_test):
    """Also where the thread that hears of it is through with its part, and waits for the others."""
    f = tw.vectorize(endless)
    f(tw.asarray(np.zeros(10))).compute()
    x = np.zeros(size)
    x[-1] = 1.0
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        f(tw.asarray(x)).compute()


@pytest.mark.parametrize("whole", SOME_OR_ALL)
def test_no_interrupt_is_lost_between_loops_on_threads(whole):
    """Helpers are asked for, and let go, by calls from native code, which cannot carry an exception."""
    f = tw.jit(side_by_side, strict=True)
    a = np.zeros(8)
    f(a, 3)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for after in np.linspace(0.0005, 0.0092, 30 if whole else 12):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, after)
                began = time.perf_counter()
                while time.perf_counter() - began < 20:
                    f(a, 3)
            time.sleep(0.02)  # two at the same time may count as one; and none comes twice
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("answers", [poll._answers, team._answering])
def test_signals_are_heard_inside_of_the_try(answers):
    """Their handlers run where a generator goes on and where a loop begins again: outside, it would be the last."""
    code = dis.Bytecode(answers)
    covered = [range(entry.start, entry.end) for entry in code.exception_entries]
    heard = [i for i in code if i.opname == "JUMP_BACKWARD" or (i.opname == "RESUME" and i.arg & 3 == 1)]
    assert heard[0].opname == "RESUME"
    for i in heard[:2]:  # a third is the way back from a handler
        assert any(i.offset in entry for entry in covered), i
