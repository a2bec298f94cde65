"""What a step of Jacobi costs on Ray beyond its computing. In: options. Out: a table and JSON.

    python -m benchmarks.ray_jacobi [--size 4000] [--workers 2] [--steps 40] [--output benchmarks/results/ray_jacobi.json]

The same program runs on actors, and on one block of the same size (its rows and their ghosts) in a process of its own with
one thread: alone, and in as many processes at once as there are workers, which then share the memory's bandwidth as the
actors do. The ratio is to the latter; the goal 1.5.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tilewise as tw

RESULTS = Path(__file__).resolve().parent / "results" / "ray_jacobi.json"
GOAL = 1.5
WARM = 4  # turns before the clock counts: planning, compiling, first touch of memory


def relax(a: Any) -> Any:
    """The inner points of a grid, one step on."""
    return 0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])


def jacobi(rows: int, columns: int, steps: int) -> list[float]:
    """Seconds of each step, of which one writes B from A and the next A from B."""
    a = tw.asarray(np.linspace(0.0, 1.0, rows)[:, None] * np.ones(columns))
    b = a.copy()
    seconds = []
    for _ in range((steps + WARM) // 2):
        for new, old in ((b, a), (a, b)):
            began = time.perf_counter()
            new[1:-1, 1:-1] = relax(old)
            tw.evaluate(new)
            seconds.append(time.perf_counter() - began)
    return seconds[WARM:]


def alone(rows: int, columns: int, steps: int, gate: Any, answers: Any) -> None:
    """One block, by one thread, when all others are ready."""
    with tw.session(threads=1):
        jacobi(rows, columns, WARM)
        gate.wait()
        answers.put(jacobi(rows, columns, steps))


def blocks(count: int, rows: int, columns: int, steps: int) -> float:
    """The median step of `count` blocks at once, each in a process."""
    context = multiprocessing.get_context("spawn")
    gate, answers = context.Barrier(count), context.Queue()
    running = [context.Process(target=alone, args=(rows, columns, steps, gate, answers)) for _ in range(count)]
    for p in running:
        p.start()
    found = [answers.get(timeout=300) for _ in running]
    for p in running:
        p.join()
    return max(median(f) for f in found)


def measure(size: int, workers: int, steps: int) -> dict[str, Any]:
    rows = size // workers + 2
    single = blocks(1, rows, size, steps)
    together = blocks(workers, rows, size, steps)
    with tw.session(engine="ray", workers=workers) as session:
        before = session.cluster.counters.network_bytes
        on_ray = median(jacobi(size, size, steps))
        moved = session.cluster.counters.network_bytes - before
    tiny = 64 * workers
    with tw.session(engine="ray", workers=workers), tw.config(eager_bytes=0):
        latency = median(jacobi(tiny, tiny, steps))
    return {
        "size": size,
        "workers": workers,
        "network_bytes": moved,
        "ms": {
            "one block, alone": single * 1e3,
            "blocks at once, no exchange": together * 1e3,
            "ray": on_ray * 1e3,
            f"ray, {tiny} x {tiny}": latency * 1e3,
        },
        "ratio": on_ray / together,
        "goal": GOAL,
    }


def main() -> int:
    """Print and write; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    row = measure(options.size, options.workers, options.steps)
    print(f"a step of {options.size} x {options.size} float64 on {options.workers} workers")
    for name, ms in row["ms"].items():
        print(f"  {name:<32}{ms:>10.2f} ms")
    verdict = "met" if row["ratio"] <= GOAL else "MISSED"
    print(f"  {'ratio, ray to blocks at once':<32}{row['ratio']:>10.2f}     goal {GOAL}  {verdict}")
    machine = {"python": platform.python_version(), "numpy": np.__version__, "cpus": os.cpu_count()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"machine": machine, **row}, indent=1) + "\n")
    print(f"written: {options.output}")
    return int(row["ratio"] > GOAL)


if __name__ == "__main__":
    sys.exit(main())
