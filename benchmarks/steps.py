"""Loops of tiny steps on two workers: what a step costs. In: an engine. Out: a table, and JSON with --json.

    python -m benchmarks.steps [--engine ray | forked] [--workers 2] [--steps 200] [--rounds 5] [--output ...]

Each step is evaluated by itself, as a program does that looks at a value now and then; `float(sum)` also waits for one.
Beside it, the same loop recorded as a whole, the same loops on virtual workers, which have no wire and take turns, and
a bare exchange of 8 bytes both ways between two processes (benchmarks/transport.py): the goal is 0.3 ms above that, and
at most 2 ms. A halo of 800 kB each way is to go at 1 GB/s, in 0.8 ms. Workers and driver share the processors: fewer
than three of them and they wait for each other; forked ones also say how much processor time all of them take.
Times are the least of some rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

import tilewise as tw
from benchmarks import forked, transport

RESULTS = Path(__file__).resolve().parent / "results" / "steps.json"

GOAL_MS, MOST_MS = 0.3, 2.0  # above a bare exchange; in all
WIDE_BYTES, WIDE_MS = 800_000, 0.8  # of a large halo each way, and the time for it
WARM_STEPS = 20  # plans are made and learned, kernels compiled


def halo(elements: int) -> Callable[[], None]:
    """One exchange of ghosts per step."""
    x = tw.evaluate(tw.asarray(numpy.arange(float(elements))).relayout(0))

    def step() -> None:
        x[1:-1] = 0.5 * (x[:-2] + x[2:])
        tw.evaluate(x)

    return step


def wide_halo(elements: int) -> Callable[[], None]:
    """One exchange of ghosts per step that are large, whatever the number of elements is."""
    far = WIDE_BYTES // 8
    x = tw.evaluate(tw.asarray(numpy.ones(4 * far)).relayout(0))

    def step() -> None:
        x[far:-far] = 0.5 * (x[: -2 * far] + x[2 * far :])
        tw.evaluate(x)

    return step


def all_reduce(elements: int) -> Callable[[], None]:
    """One sum over all workers per step."""
    x = tw.evaluate(tw.asarray(numpy.arange(float(elements))).relayout(0))

    def step() -> None:
        nonlocal x
        x = tw.evaluate(x - 0.5 * x.mean())

    return step


def float_sum(elements: int) -> Callable[[], None]:
    """One sum per step that the driver looks at."""
    x = tw.evaluate(tw.asarray(numpy.arange(float(elements))).relayout(0))

    def step() -> None:
        float((x * x).sum())

    return step


def recorded(elements: int) -> Callable[[], None]:
    """Twenty sums over all workers, recorded at once."""
    x = tw.evaluate(tw.asarray(numpy.arange(float(elements))).relayout(0))

    def step() -> None:
        nonlocal x
        for _ in range(20):
            x = x - 0.5 * x.mean()
        tw.evaluate(x)

    return step


LOOPS: dict[str, tuple[Callable[[int], Callable[[], None]], int]] = {  # with how many steps a call is
    "halo": (halo, 1),
    "all-reduce": (all_reduce, 1),
    "float(sum)": (float_sum, 1),
    "20 all-reduces": (recorded, 20),
    "halo of 800 kB": (wide_halo, 1),
}


def processor_ms(cluster: Any) -> float:
    """Processor time of this process and of those that it has forked for workers, as Linux counts it."""
    pids = [os.getpid(), *(p.pid for p in getattr(cluster, "processes", {}).values())]
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e6


def measure(
    engine: str, workers: int, steps: int, elements: int, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Milliseconds per step of each loop: by the clock, and of processors if all processes are known."""
    found, spent = {}, {}
    known = engine != "ray" and Path("/proc/self/schedstat").exists()
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine=engine, workers=workers) as session:
        for name, (make, inside) in LOOPS.items():
            step = make(elements)
            for _ in range(WARM_STEPS):
                step()
            cluster: Any = session.cluster
            count, least, busy = max(1, steps // inside), float("inf"), float("inf")
            for _ in range(rounds):
                before = cluster.counters.network_bytes  # waits for what is under way
                used, began = processor_ms(cluster) if known else 0.0, time.perf_counter()
                for _ in range(count):
                    step()
                assert cluster.counters.network_bytes - before >= 8 * count, "nothing was exchanged"
                least = min(least, (time.perf_counter() - began) / (count * inside) * 1e3)
                if known:
                    busy = min(busy, (processor_ms(cluster) - used) / (count * inside))
            found[name] = least
            if known:
                spent[name] = busy
    return found, spent


def bare(rounds: int) -> float:
    """Milliseconds of an exchange of 8 bytes both ways, by the better of the engine's wire and a bare connection."""
    ways = [transport.measure(way, 200) for _ in range(rounds) for way in ("wire", "tcp")]
    return min(ms[0] for ms in ways if ms is not None)


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", default="ray", choices=("ray", forked.Forked.name))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--elements", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    given = (options.workers, options.steps, options.elements, options.rounds)
    least = bare(options.rounds)  # first: this process is forked, before it has threads
    measured = {e: measure(e, *given) for e in (options.engine, "virtual")}
    rows, spent = {e: m[0] for e, m in measured.items()}, measured[options.engine][1]
    print(f"a bare exchange of 8 bytes takes {least:.3f} ms; goal of a step: {least + GOAL_MS:.3f} ms")
    print(f"{'ms per step':<16}" + "".join(f"{e:>12}" for e in rows))
    missed = 0
    for name in LOOPS:
        goal = WIDE_MS if name == "halo of 800 kB" else min(least + GOAL_MS, MOST_MS)
        reached = rows[options.engine][name] <= goal
        missed += not reached
        print(
            f"{name:<16}"
            + "".join(f"{rows[e][name]:>12.3f}" for e in rows)
            + (f"{spent[name]:>12.3f} of processors" if spent else "")
            + ("" if reached else "  misses the goal")
        )
    machine = {"python": platform.python_version(), "numpy": numpy.__version__, "cpus": os.cpu_count()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine, "workers": options.workers, "bare_ms": least, "ms": rows, "processor_ms": spent}
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
