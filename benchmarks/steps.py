"""Loops of tiny steps on two workers: what a step costs. In: an engine. Out: a table, and JSON with --json.

Run: python benchmarks/steps.py [--engine ray] [--workers 2] [--steps 200] [--json FILE]. Each step is evaluated by
itself, as a program does that looks at a value now and then; `float(sum)` also waits for one. Beside it, the same loop
recorded as a whole, and the same loop on virtual workers, which has no wire.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

sys.path.insert(0, str(Path(__file__).parent.parent))

import tilewise as tw

WARM_STEPS = 20  # plans are made and learned, kernels compiled


def halo(elements: int) -> Callable[[], None]:
    """One exchange of ghosts per step."""
    x = tw.evaluate(tw.asarray(numpy.arange(float(elements))).relayout(0))

    def step() -> None:
        x[1:-1] = 0.5 * (x[:-2] + x[2:])
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
}


def measure(engine: str, workers: int, steps: int, elements: int) -> dict[str, float]:
    """Milliseconds per step of each loop."""
    found = {}
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine=engine, workers=workers) as session:
        for name, (make, inside) in LOOPS.items():
            step = make(elements)
            for _ in range(WARM_STEPS):
                step()
            cluster: Any = session.cluster
            before = cluster.counters.network_bytes  # waits for what is under way
            began = time.perf_counter()
            count = max(1, steps // inside)
            for _ in range(count):
                step()
            assert cluster.counters.network_bytes - before >= 8 * count, "nothing was exchanged"
            found[name] = (time.perf_counter() - began) / (count * inside) * 1e3
    return found


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--engine", default="ray")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--elements", type=int, default=10_000)
    options.add_argument("--json")
    given = options.parse_args()
    rows = {e: measure(e, given.workers, given.steps, given.elements) for e in dict.fromkeys(("virtual", given.engine))}
    print(f"{'ms per step':<16}" + "".join(f"{e:>12}" for e in rows))
    for name in LOOPS:
        print(f"{name:<16}" + "".join(f"{rows[e][name]:>12.3f}" for e in rows))
    if given.json:
        Path(given.json).write_text(json.dumps({"options": vars(given), "ms": rows}, indent=1))


if __name__ == "__main__":
    main()
