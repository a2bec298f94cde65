"""What trials of other tile lengths gain and cost. In: options. Out: a table and JSON.

    python -m benchmarks.tuning [--only name,…] [--runs 150] [--rounds 20] [--scale 1.0] [--output …]

Programs are those whose tiles may have any length (nothing is summed over them). Each starts without records. Runs with
and without tuning take turns, so that a busy machine slows both alike. `cost` is what the former took more, until a
length was kept or `runs` were over, in seconds of all cores: trials may take 5 % of the time of all runs. `gain` is the
quotient of the least times of `rounds` runs of each afterwards.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilewise as tw
from benchmarks.kernels.registry import Program, load
from tilewise import compiler
from tilewise.backend.llvm.tiles import tuning_records
from tilewise.machine import cpu_name

RESULTS = Path(__file__).resolve().parent / "results" / "tuning.json"
Clock = Callable[[], float]
NAMES = "softmax layer_norm pairwise_distances gaussian_blur"


def measure(program: Program, runs: int, rounds: int, scale: float) -> dict[str, Any]:
    """One program in a folder of its own."""
    inputs = [tw.asarray(x) if hasattr(x, "shape") else x for x in program.inputs(int(program.size * scale))]

    def seconds(tune: bool, clock: Clock = time.perf_counter) -> float:
        with tw.config(tune=tune):
            began = clock()
            out = program.source(tw, *inputs)
            tw.evaluate(*(out if isinstance(out, tuple) else (out,)))
            return clock() - began

    tuning_records.forget()
    compiler.forget_plans()
    for _ in range(3):
        seconds(False)
    spent = _until_settled(lambda tune: seconds(tune, time.process_time), runs)
    off, on = zip(*[(seconds(False), seconds(True)) for _ in range(rounds)], strict=True)
    before, after = min(off), min(on)
    plain, tried = sum(s for s, _ in spent), sum(s for _, s in spent)
    return {
        "name": program.name,
        "off_s": before,
        "on_s": after,
        "gain": before / after,
        "runs": len(spent),
        "cost_s": tried - plain,
        "cost_share": tried / plain - 1,
        "factors": [r.factor for r in tuning_records.known()],
    }


def _until_settled(seconds: Callable[[bool], float], most: int) -> list[tuple[float, float]]:
    """The seconds of runs without and with tuning, until every class met has its length."""
    spent = []
    for _ in range(most):
        spent.append((seconds(False), seconds(True)))
        records = tuning_records.known()
        if records and all(r.factor is not None for r in records):
            break
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=NAMES.replace(" ", ","))
    parser.add_argument("--runs", type=int, default=150, help="to find a length, at most")
    parser.add_argument("--rounds", type=int, default=20, help="with and without it, afterwards")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    programs, rows = load(), []
    print(f"{'program':20} {'off':>9} {'on':>9} {'gain':>6} | {'runs':>5} {'cost':>9} {'share':>6}  kept")
    for name in args.only.split(","):
        with tempfile.TemporaryDirectory() as folder, tw.config(cache_dir=folder):
            row = measure(programs[name], args.runs, args.rounds, args.scale)
        rows.append(row)
        kept = ", ".join("open" if f is None else f"{f:g}" for f in row["factors"]) or "no trials"
        print(
            f"{name:20} {row['off_s'] * 1e3:8.2f}m {row['on_s'] * 1e3:8.2f}m {row['gain']:6.2f} | "
            f"{row['runs']:5} {row['cost_s'] * 1e3:8.1f}m {row['cost_share']:6.1%}  {kept}",
            flush=True,
        )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps({"cpu": cpu_name(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
