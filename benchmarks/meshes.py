"""What a mesh costs beside the local engine: the same programs, data in place. Out: a table and JSON.

    python -m benchmarks.meshes [--only name,…] [--repeat 7] [--scale 1.0] [--output …]

`one` is the virtual engine with one worker, through the same code as four, beside the local engine: the goal is at most
1.1 times the local time plus 0.3 ms. `four` compares the seconds spent in steps (passes, calls, writes), summed over
four virtual workers, with the local engine's time, both on one thread: the goal is 1.15. `steps` counts the steps of a
run, for the local engine and for all four workers together. Each time is the best of some.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import tilewise as tw
from benchmarks.kernels.registry import Program, load

RESULTS = Path(__file__).resolve().parent / "results" / "meshes.json"
NAMES = (
    "kmeans_one_hot kmeans_bincount logistic_gradient standardise softmax layer_norm jacobi black_scholes gaussian_blur"
).split()
ONE_GOAL, ONE_SPARE_S, FOUR_GOAL = 1.1, 0.3e-3, 1.15
STEPS = ("pass", "call", "write")  # events that are work, not exchanges
CORES = os.cpu_count() or 1


def measure(program: Program, repeat: int, scale: float) -> dict[str, Any]:
    """Best times of all engines, and the seconds of their steps."""
    inputs = program.inputs(int(program.size * scale))
    row: dict[str, Any] = {"name": program.name}
    kinds = {
        "local": {"threads": CORES},
        "one": {"engine": "virtual", "workers": 1, "threads": CORES},
        "local 1 thread": {"threads": 1},
        "four 1 thread": {"engine": "virtual", "workers": 4, "threads": 1},
    }
    for name, options in kinds.items():
        row[name] = _best(program, inputs, options, repeat)
    return row


def _best(program: Program, inputs: tuple[Any, ...], options: dict[str, Any], repeat: int) -> dict[str, float]:
    """One engine: the least time, and the least seconds in steps."""
    with tw.session(**options):
        given = [tw.asarray(x) if hasattr(x, "shape") else x for x in inputs]

        def evaluate() -> None:
            out = program.source(tw, *given)
            tw.evaluate(*(out if isinstance(out, tuple) else (out,)))

        for _ in range(3):
            evaluate()
        seconds, steps, kernels = [], [], 0
        for _ in range(repeat):
            began = time.perf_counter()
            evaluate()
            seconds.append(time.perf_counter() - began)
        for _ in range(max(2, repeat // 2)):
            with tw.profile() as seen:
                evaluate()
            found = [e for e in seen.timeline if e.kind in STEPS]
            steps.append(sum(e.end - e.start for e in found))
            kernels = len(found)
    return {"seconds": min(seconds), "steps_s": min(steps), "steps": kernels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    programs = load()
    rows = []
    print(
        f"{'program':18} {'local':>9} {'one':>9} {'ratio':>6} {'':4} | "
        f"{'local 1t':>9} {'four 1t':>9} {'ratio':>6}  steps"
    )
    for name in args.only.split(","):
        row = measure(programs[name], args.repeat, args.scale)
        rows.append(row)
        local, one = row["local"]["seconds"], row["one"]["seconds"]
        base, four = row["local 1 thread"]["seconds"], row["four 1 thread"]["steps_s"]
        row["one_ok"], row["four_ok"] = one <= ONE_GOAL * local + ONE_SPARE_S, four <= FOUR_GOAL * base
        steps = "/".join(str(row[k]["steps"]) for k in ("local 1 thread", "four 1 thread"))
        marks = ("" if row["one_ok"] else "!"), ("" if row["four_ok"] else "!")
        print(
            f"{name:18} {local * 1e3:8.2f}m {one * 1e3:8.2f}m {one / local:6.2f} {marks[0]:4} | "
            f"{base * 1e3:8.2f}m {four * 1e3:8.2f}m {four / base:6.2f} {marks[1]:1} {steps}",
            flush=True,
        )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps({"cpu": platform.processor(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
