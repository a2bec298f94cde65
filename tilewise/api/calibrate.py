"""Measure this machine. In: nothing. Out: rates, kept in the cache folder for later plans.

Every rate is measured by what will use it: a fused pass over arrays larger than the caches, a product, a function, a
sort, each the best of several; between workers, what one process can copy (a network is given by `network=`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.api.create import asarray
from tilewise.array import force as forcing
from tilewise.array.session import no_session
from tilewise.backend.threads import get_threads
from tilewise.config import config, current
from tilewise.cost import stored
from tilewise.cost.model import FIXED, Rates

REPEATS, LEAST_SECONDS = 5, 0.2  # of a measurement, at least
STREAM = 1 << 24  # elements: 128 MiB an array, so that two do not fit into the caches
NEAR = 1 << 15  # elements: two arrays are in a core's L2 cache
SIDE = 1024
WIDTH = 64  # of a tall product, as of points and centres
NARROW = 12  # of short rows
DEGREE = 12  # of a polynomial: arithmetic enough that memory does not count
ORDERED = 1 << 20
MANY = 20
EXCHANGE_STEPS = 10  # an exchange between workers of one process costs about as much


def calibrate() -> tuple[Rates, Path]:
    """Measure the rates of this machine (a few seconds) and keep them for `config(machine="measured")`."""
    with no_session(), config(eager_bytes=0, flush=False, progress=False):
        rates = measure()
    return rates, stored.save(rates, current().cache_dir)


def measure() -> Rates:
    """The rates, best of several."""
    a: Any
    b: Any
    tiny: Any
    product: Any
    mixed: Any
    numbers = np.random.default_rng(1).random
    a, b, tiny, product, mixed = (asarray(numbers(n)) for n in (STREAM, STREAM, 8, (SIDE, SIDE), ORDERED))
    step = max(_seconds(lambda: _steps(tiny, MANY)) - _seconds(lambda: _steps(tiny, 1)), 1e-7) / (MANY - 1)
    summed, read, stored_too = (_seconds(f) for f in (lambda: (a * b).sum(), lambda: a.sum(), lambda: a + 1.0))
    simple = _seconds(lambda: _polynomial(a).sum())
    tall, few = a[: STREAM // WIDTH * WIDTH].reshape(-1, WIDTH), b[: WIDTH * WIDTH].reshape(WIDTH, WIDTH)
    divided, by_row = _seconds(lambda: a / b), _seconds(lambda: tall / few[0])
    narrow = a[: STREAM // NARROW * NARROW].reshape(-1, NARROW)
    ends = _seconds(lambda: narrow.sum(axis=1)) - read
    functions = _seconds(lambda: np.exp(a))
    flops = 2.0 * SIDE**3 / _seconds(lambda: product @ product)
    points = asarray(numbers((SIDE * WIDTH, WIDTH)) - 0.5)
    nearest = 2.0 * WIDTH * points.size / _seconds(lambda: (points @ few).argmin(axis=1))
    ordering = _seconds(lambda: np.sort(mixed))
    memory_rate = 2 * 8 * STREAM / summed
    store_rate = 8 * STREAM / max(stored_too - read, 0.1 * stored_too)
    source, target = np.ones(STREAM), np.empty(STREAM)
    alone = _best(lambda: np.add(source, 1.0))
    copied = _best(lambda: np.copyto(target, source))
    near = _best(lambda: np.add(source[:NEAR], 1.0, target[:NEAR]))
    return replace(
        FIXED,
        memory_rate=memory_rate,
        store_rate=store_rate,
        cache_rate=2 * 8 * NEAR / near * get_threads(),
        numpy_rate=2 * 8 * STREAM / alone,
        flop_rate=flops,
        nearest_flop_rate=nearest,
        simple_rate=(2 * DEGREE + 1) * STREAM / simple,
        divide_rate=STREAM / divided,
        row_divide_rate=STREAM / by_row,
        function_rate=STREAM / functions,
        row_seconds=max(ends, 1e-6) / len(narrow),
        sort_rate=ORDERED * float(np.log2(ORDERED)) / ordering,
        step_seconds=step,
        network_rate=8 * STREAM / copied,
        latency=EXCHANGE_STEPS * step,
    )


def _polynomial(x: Any) -> Any:
    """As many products and sums as its degree."""
    y = x
    for _ in range(DEGREE):
        y = y * x + 0.5
    return y


def _steps(x: Any, count: int) -> Any:
    """Work of so many steps that cannot be one."""
    for _ in range(count):
        x = x.cumsum()
    return x


def _seconds(make: Callable[[], Any]) -> float:
    """The least time to evaluate a recorded expression, planned and compiled before."""

    def run() -> None:
        forcing.evaluate([make()._cell])

    run()
    return _best(run)


def _best(call: Callable[[], Any]) -> float:
    """The least time of several calls, and of as many as take a while: cores need some time to reach their speed."""
    times: list[float] = []
    while len(times) < REPEATS or sum(times) < LEAST_SECONDS:
        times.append(_timed(call))
    return min(times)


def _timed(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
