"""Ctrl-C ends compiled loops, and arrays are as they were at that point."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import tilewise as tw


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


@pytest.mark.parametrize("call", [(counts,), (nested, 10**6), (flat, 10**12)], ids=["while", "nest", "flat"])
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
    assert time.perf_counter() - start < 30 and a.sum() > 0
    if f is not counts:
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
