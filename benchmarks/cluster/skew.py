"""Work that is not even, and a worker that is slow: how long beside the time of even work. Out: a table.

Blocks take their time by sleeping, so that what is measured is who computes what, not how fast cores are. Times
are those of even work on equal workers, measured in the same session, times so much: the goal is 1.3. `one block each`
is the same program without blocks to share.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy

import tilewise as tw
from tilewise.array.session import current_session

WORKERS, BLOCKS, SECONDS = 2, 16, 0.02  # of a block, in the mean
GOAL = 1.3
REPEAT = 3
SLOW = 1.25  # a slow worker takes so many times as long for all that it does


def work(x: Any) -> Any:
    """As long as the first column says; the second has the process that is slow."""
    slow = float(x[0, 1]) == os.getpid()
    time.sleep(SECONDS * float(x[:, 0].sum()) * (SLOW if slow else 1.0))
    return x * 2.0


def pids(x: Any) -> Any:
    """Which process has a row."""
    return numpy.full(x.shape, float(os.getpid()))


def columns(costs: Any, slow: int = -1) -> Any:
    """A row for each block of many: what it costs, and which process is slow."""
    return numpy.stack([costs / costs.mean(), numpy.full(len(costs), float(slow))], axis=1)


def seconds(x: Any) -> float:
    """The best time of some."""
    best = float("inf")
    for _ in range(REPEAT):
        began = time.perf_counter()
        tw.evaluate(tw.map_tiles(work, x + 0, dtype=float, shape=x.shape).sum())
        current_session().cluster.settle()  # type: ignore[union-attr]
        best = min(best, time.perf_counter() - began)
    return best


def measured(blocks: int) -> dict[str, float]:
    """Times with so many blocks for each worker."""
    rows = WORKERS * BLOCKS
    even, triangular = numpy.ones(rows), numpy.arange(1.0, rows + 1)
    half = numpy.repeat([1.0, 0.0], BLOCKS) + 1e-3
    with tw.config(eager_bytes=0, blocks=blocks), tw.session(engine="ray", workers=WORKERS, threads=1):

        def placed(x: Any) -> Any:
            return tw.evaluate(tw.asarray(x).relayout(0))

        first = placed(columns(even))
        seconds(first)
        slow = int(numpy.asarray(tw.map_tiles(pids, first + 0, dtype=float, shape=first.shape))[0, 0])
        return {
            "even": seconds(first),
            "triangular": seconds(placed(columns(triangular))),
            "all on one worker": seconds(placed(columns(half))),
            "a slow worker": seconds(placed(columns(even, slow))),
        }


def report() -> dict[str, Any]:
    """Print the table; its rows."""
    shared, alone = measured(BLOCKS), measured(1)
    asleep = SECONDS * BLOCKS
    print(f"\n{WORKERS} workers x {BLOCKS} blocks, {asleep * 1e3:.0f} ms each (even: {shared['even'] / asleep:.2f})")
    print(f"{'work':20} {'of even':>12} {'one block each':>15}")
    for name, taken in shared.items():
        mark = "" if taken <= GOAL * shared["even"] else "!"
        print(f"{name:20} {taken / shared['even']:12.2f} {alone[name] / alone['even']:15.2f} {mark}")
    return {"asleep": asleep, "shared": shared, "alone": alone}


if __name__ == "__main__":
    report()
