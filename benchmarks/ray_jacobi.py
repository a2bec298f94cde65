"""What a step of Jacobi costs on Ray beyond its computing. In: options. Out: a table and JSON.

    python -m benchmarks.ray_jacobi [--size 4000] [--workers 2] [--steps 20] [--rounds 6] [--output ...]

The same program runs on the actors together, and in each of them on one block of the same size (its rows and their
ghosts) without any exchange: alone, and in all at once, when they share cores and memory bandwidth. The three take
turns, and each time is the least of the medians of its rounds, so that a busy machine slows all alike. The goal is for
the ratio to blocks at once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import ray

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


def measure(size: int, workers: int, steps: int, rounds: int) -> dict[str, Any]:
    """The least times of all ways."""
    rows = size // workers + 2
    least: dict[str, float] = {}

    def note(name: str, seconds: float) -> None:
        least[name] = min(seconds, least.get(name, seconds))

    with tw.session(engine="ray", workers=workers) as session:
        actors = list(session.cluster.actors.values())

        def blocks(count: int) -> float:
            work = [a.__ray_call__.remote(lambda _: median(jacobi(rows, size, steps))) for a in actors[:count]]
            return max(ray.get(work))

        for _ in range(rounds):
            note("one block, alone", blocks(1))
            note("blocks at once", blocks(workers))
            before = session.cluster.counters.network_bytes
            note("ray", median(jacobi(size, size, steps)))
            moved = session.cluster.counters.network_bytes - before
        tiny = 64 * workers
        with tw.config(eager_bytes=0):
            note(f"ray, {tiny} x {tiny}", median(jacobi(tiny, tiny, steps * rounds)))
    return {
        "size": size,
        "workers": workers,
        "network_bytes": moved,
        "ms": {name: s * 1e3 for name, s in least.items()},
        "ratio": least["ray"] / least["blocks at once"],
        "goal": GOAL,
    }


def main() -> int:
    """Print and write; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    row = measure(options.size, options.workers, options.steps, options.rounds)
    print(f"a step of {options.size} x {options.size} float64 on {options.workers} workers")
    for name, ms in row["ms"].items():
        ratio = ms / row["ms"]["blocks at once"]
        print(f"  {name:<32}{ms:>10.2f} ms{ratio:>8.2f}")
    verdict = "met" if row["ratio"] <= GOAL else "MISSED"
    print(f"  ratio {row['ratio']:.2f}, goal {GOAL}: {verdict}")
    machine = {"python": platform.python_version(), "numpy": np.__version__, "cpus": os.cpu_count()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"machine": machine, **row}, indent=1) + "\n")
    print(f"written: {options.output}")
    return int(row["ratio"] > GOAL)


if __name__ == "__main__":
    sys.exit(main())
