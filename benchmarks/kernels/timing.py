"""Times of systems that take turns. In: calls. Out: seconds of each. Knows no program."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping

from benchmarks.kernels.systems import Call

TURN_SECONDS = 0.001  # a turn is at least this long: shorter calls are repeated within it
MAX_CALLS = 200
WARM_CALLS = 4  # before the clock starts: `tw.jit` compiles in its first three
WARM_SECONDS = 1.0  # or until then
REST_SECONDS = 0.01  # after each turn: a system's threads may still spin for work, or give memory back
MOST_RESTS = 30
QUIET = 0.1  # of one core, while the process rests


def turns(calls: Mapping[str, Call], seconds: float, least: int = 3, most: int = 40) -> dict[str, list[float]]:
    """Seconds per call of each system, turn by turn, after a first round that does not count."""
    batch: dict[str, int] = {}
    for name, call in calls.items():
        began = time.perf_counter()
        for _ in range(WARM_CALLS):
            call()  # compiles, and touches buffers
            if time.perf_counter() - began > WARM_SECONDS:
                break
        start = time.perf_counter()
        call()
        batch[name] = min(max(int(TURN_SECONDS / (time.perf_counter() - start)), 1), MAX_CALLS)
    times: dict[str, list[float]] = {name: [] for name in calls}
    began = time.perf_counter()
    for turn in range(most):
        if turn >= least and time.perf_counter() - began > seconds:
            break
        for name, call in calls.items():
            times[name].append(_once(call, batch[name]))
            _rest()
    return times


def _rest() -> None:
    """Wait until the last system is at rest, lest the next one pays for it: JAX frees large buffers after its call."""
    for _ in range(MOST_RESTS):
        used = time.process_time()
        time.sleep(REST_SECONDS)
        if time.process_time() - used < QUIET * REST_SECONDS:
            break


def _once(call: Call, count: int) -> float:
    result = None
    start = time.perf_counter()
    for _ in range(count):
        result = call()
    took = (time.perf_counter() - start) / count
    del result  # freed outside of the clock, as a user's last result
    return took


def of(times: list[float], median: bool) -> float:
    """What a row shows: the best time, or the median of all."""
    return statistics.median(times) if median else min(times)
