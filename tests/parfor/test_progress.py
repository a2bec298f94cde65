"""Progress of loops: iterations done and time left, in every mode."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise import events
from tilewise.observe import progress


@tw.parallel
def slow(mode: str | None, workers: int) -> Any:
    out = np.zeros(12)
    for i in tw.parfor(range(12), mode=mode, workers=workers, partition="static", check=False):
        time.sleep(0.05)
        out[i] = 1
    return out


@pytest.mark.parametrize(("mode", "workers"), [(None, 1), ("threads", 2), ("processes", 2)])
def test_iterations_are_counted_while_the_loop_runs(mode: str | None, workers: int) -> None:
    seen: list[tuple[int, int]] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.01):
            seen.append((events.activity.iterations, events.activity.loop))

    watcher = threading.Thread(target=look)
    watcher.start()
    slow(mode, workers)
    stop.set()
    watcher.join()
    counts = [done for done, total in seen if total]
    assert {total for _, total in seen} <= {0, 12} and counts == sorted(counts)
    assert any(0 < done < 12 for done in counts)
    assert events.activity.loop == 0 and events.activity.began == 0.0


def test_the_line() -> None:
    activity = events.activity
    activity.began, activity.loop, activity.iterations = 100.0, 40, 10
    try:
        assert progress.line(100.5) is None  # under a second
        assert progress.line(102.0) == "tilewise: 10 of 40 iterations, 2.0 s, about 6.0 s left"
        activity.iterations = 0
        assert progress.line(102.0) == "tilewise: 0 of 40 iterations, 2.0 s"
    finally:
        activity.began, activity.loop, activity.iterations = 0.0, 0, 0


def test_it_can_be_turned_off() -> None:
    seen = []

    @tw.parallel
    def look(out: Any) -> None:
        for i in tw.parfor(range(3), workers=1, check=False):
            out[i] = 1
            seen.append(events.activity.loop)

    with tw.config(progress=False):
        look(np.zeros(3))
    assert seen == [0, 0, 0]
    seen.clear()
    look(np.zeros(3))
    assert seen == [3, 3, 3]
