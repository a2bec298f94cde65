"""NumPy programs in time loops with only the import changed, beside NumPy. In: options. Out: a table and JSON.

    python -m benchmarks.plain_loops [--rounds 15] [--seconds 1.5] [--sizes 1000 10000] [name ...]

No decorator, no settings. NumPy and Tilewise take turns in one process, on fresh copies of the inputs made before the
clock starts; results are asked for as NumPy arrays before it stops. A ratio is NumPy's least time over ours: above 1 we
are quicker. Results must agree with NumPy's. `FLOORS` are the least ratios for programs on whole arrays. `--cpu` takes
the CPU time of all threads instead: on a busy machine it still says what one core has to do.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewise as tw
from benchmarks._report import write_report
from benchmarks.plain_programs import PROGRAMS, Program

tw.config(wait_for_native=True)  # times are those of good code
RESULTS = Path(__file__).resolve().parent / "results" / "plain_loops.json"
FLOORS = {1_000: 0.5, 10_000: 0.8, 100_000: 1.0, 1_000_000: 1.0}  # elements -> least ratio
STEPS = {1_000: 200, 10_000: 100, 100_000: 30, 1_000_000: 8}  # of a program of weight 1
Clock = Callable[[], float]
ELEMENT_SIZE = 900  # elements, of loops over elements


def steps_of(program: Program, size: int) -> int:
    """Time steps of a run."""
    return 3 if program.kind == "element" else max(int(STEPS[size] / program.weight), 2)


def once(program: Program, module: Any, inputs: tuple[Any, ...], steps: int, clock: Clock) -> tuple[float, list[Any]]:
    """(seconds, results as ndarrays) of one run on copies of the inputs."""
    given = [x.copy() if module is np else module.array(x) for x in inputs]
    start = clock()
    found = program.run(module, steps, *given)
    results = [np.asarray(r) for r in (found if isinstance(found, tuple) else (found,))]
    return clock() - start, results


def measure(program: Program, size: int, rounds: int, seconds: float, clock: Clock) -> dict[str, Any]:
    """One row."""
    inputs = program.make(size)
    steps = steps_of(program, size)
    row: dict[str, Any] = {"name": program.name, "kind": program.kind, "size": size, "steps": steps}
    theirs, expected = once(program, np, inputs, steps, clock)
    times: tuple[list[float], list[float]] = ([theirs], [])
    ours, results = once(program, tw, inputs, steps, clock)
    row["first_s"] = ours
    for a, b in zip(expected, results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-9)
    start = time.perf_counter()
    while len(times[1]) < 3 or (len(times[1]) < rounds and time.perf_counter() - start < seconds):
        times[0].append(once(program, np, inputs, steps, clock)[0])
        times[1].append(once(program, tw, inputs, steps, clock)[0])
    numpy_s, tilewise_s = min(times[0]), min(times[1])
    halves = min(times[0][0::2]), min(times[0][1::2])
    row |= {"numpy_s": numpy_s, "tilewise_s": tilewise_s, "ratio": numpy_s / tilewise_s, "runs": len(times[1])}
    row |= {"noise": max(halves) / min(halves), "floor": FLOORS[size] if program.kind == "array" else None}
    return row


def mean(found: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, found)) / len(found))


def table(rows: list[dict[str, Any]]) -> str:
    """Programs by sizes: NumPy's µs per step, and the ratio; a star where it is below the floor."""
    sizes = sorted({r["size"] for r in rows if r["kind"] == "array"})
    lines = [f"{'NumPy µs per step, ratio':<26}" + "".join(f"{f'{s:,}':>22}" for s in sizes)]
    for name in dict.fromkeys(r["name"] for r in rows if r["kind"] == "array"):
        found = {r["size"]: r for r in rows if r["name"] == name}
        cells = [cell(found[s]) if s in found else " " * 22 for s in sizes]
        lines.append(f"{name:<26}" + "".join(cells))
    if sizes:
        means = [mean([r["ratio"] for r in rows if r["size"] == s and r["kind"] == "array"]) for s in sizes]
        lines.append(f"{'geometric mean':<26}" + "".join(f"{m:>20.2f}  " for m in means))
    elements = [r for r in rows if r["kind"] == "element"]
    for row in elements:
        lines.append(f"{row['name']:<26}" + cell(row))
    if elements:
        lines.append(f"{'geometric mean':<26}{mean([r['ratio'] for r in elements]):>20.2f}")
    return "\n".join(lines)


def cell(row: dict[str, Any]) -> str:
    """One row as a cell."""
    below = row["floor"] is not None and row["ratio"] < row["floor"]
    return f"{row['numpy_s'] / row['steps'] * 1e6:>14,.1f}{row['ratio']:>6.2f}{' *' if below else '  '}"


def main() -> int:
    """Print and write; 1 if a row is below its floor."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs (all of them)")
    parser.add_argument("--rounds", type=int, default=15, help="runs of each, at most")
    parser.add_argument("--seconds", type=float, default=1.5, help="for the runs of a row")
    parser.add_argument("--cpu", action="store_true", help="CPU time of all threads")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(STEPS))
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    clock: Clock = time.process_time if options.cpu else time.perf_counter
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for program in PROGRAMS:
            if options.names and program.name not in options.names:
                continue
            for size in options.sizes if program.kind == "array" else [ELEMENT_SIZE]:
                rows.append(measure(program, size, options.rounds, options.seconds, clock))
    print(table(rows))
    write_report(options.output, {"rows": rows})
    return int(any(r["floor"] is not None and r["ratio"] < r["floor"] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
