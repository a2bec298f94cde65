"""Two work trees, taking turns in processes of their own: what a change has cost or gained. Out: tables and JSON.

    git worktree add ../before COMMIT
    python -m benchmarks.before_after ../before [--processes 10] [--tables kernels,overheads,programs,solver]

Each process measures one table of one tree; a row's time is the best of all processes. Its *spread* is what the earlier
tree shows beside itself: the best of every second process against the best of the others. A row is marked if the later
tree is slower by more than 5 % and by more than three times the spread (rows of `overheads` also by more than 0.3 us).
The solver's rows have new kinds of layouts to weigh where operators got some: their problems may not be the same.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "benchmarks" / "results" / "before_after.json"
SLOWER, SPREADS, SPARE_US = 1.05, 3.0, 0.3

Times = dict[str, float]  # seconds by row

TABLES: dict[str, tuple[list[str], str, Callable[[Any], Times]]] = {
    "kernels": (
        "--systems tilewise --fraction 0.2 --seconds 0.6 --no-scales".split(),
        "--json",
        lambda d: {r["program"]: r["ms"]["tilewise"] / 1e3 for r in d["rows"] if r["ms"].get("tilewise")},
    ),
    "overheads": (
        "--rounds 20".split(),
        "--output",
        lambda d: {r["name"]: r["us"]["tilewise"] / 1e6 for r in d["rows"] if r["us"].get("tilewise")},
    ),
    "programs": (
        "--repeat 7 --limit-seconds 1.2".split(),
        "--output",
        lambda d: {r["name"]: r["best_s"] for r in d["programs"] if r.get("best_s")},
    ),
    "solver": (
        "--part 0.05".split(),
        "--output",
        lambda d: {r["name"]: sum(r["own"]) / 1e3 for r in d["rows"] if r.get("own")},
    ),
}


def measured(tree: Path, table: str) -> Times:
    """The rows of a table, in a process of its own."""
    options, flag, read = TABLES[table]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [sys.executable, "-m", f"benchmarks.{table}", *options, flag, str(out)]
        done = subprocess.run(
            command, cwd=tree, env=os.environ | {"PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False
        )
        if not out.exists():
            raise SystemExit(f"{table} failed in {tree}:\n{done.stderr[-2000:]}")
        return read(json.loads(out.read_text()))


def best(runs: list[Times]) -> Times:
    """Of each row the least time."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: min(run[name] for run in runs if name in run) for name in names}


def compared(table: str, before: list[Times], after: list[Times]) -> list[dict[str, Any]]:
    """The rows that both trees have, with ratios and spreads."""
    old, new = best(before), best(after)
    odd, even = best(before[::2]), best(before[1::2])
    rows = []
    for name in old:
        if name not in new:
            continue
        ratio = new[name] / old[name]
        spread = max(odd[name], even[name]) / min(odd[name], even[name]) - 1 if name in odd and name in even else 0.0
        slower = ratio > max(SLOWER, 1 + SPREADS * spread)
        if table == "overheads":
            slower = slower and (new[name] - old[name]) * 1e6 > SPARE_US
        rows.append(
            {
                "row": name,
                "before_s": old[name],
                "after_s": new[name],
                "ratio": ratio,
                "spread": spread,
                "slower": slower,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    result: dict[str, Any] = {}
    for table in args.tables.split(","):
        before, after = [], []
        for k in range(args.processes):
            pair = [(args.before.resolve(), before), (HERE, after)]
            for tree, runs in pair if k % 2 == 0 else pair[::-1]:
                runs.append(measured(tree, table))
        rows = compared(table, before, after)
        mean = math.exp(sum(math.log(r["ratio"]) for r in rows) / max(1, len(rows)))
        result[table] = {"geometric_mean": mean, "rows": rows}
        print(f"\n{table}: {len(rows)} rows, geometric mean after / before {mean:.3f}", flush=True)
        for r in sorted(rows, key=lambda r: -r["ratio"]):
            if r["slower"] or abs(math.log(r["ratio"])) > math.log(1.1):
                times = f"{r['before_s']:10.3g} {r['after_s']:10.3g} {r['ratio']:6.2f} +-{r['spread']:5.1%}"
                print(f"  {r['row'][:40]:40} {times}{' slower' if r['slower'] else ''}")
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
