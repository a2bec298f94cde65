"""Loop programs under plain Python, Numba, C and `tw.jit`. Out: a table and JSON.

    python -m benchmarks.loops [--names name,…] [--size small|medium] [--systems tw.jit,numba,…] [--output FILE]

At medium size Numba takes milliseconds, at small size some ten microseconds, which are mostly the call itself.

Every program has a process of its own, in which the systems take turns, with two threads each; times are the best of
the turns. `numba` is the better of the source and of Numba's own idiom, `parallel` its form with `prange`, `fastmath`
the best of the three with fastmath; `tw arrays` is the source under `tw.jit` after `import tilewise as np`. What every
system leaves (results, and arguments that are written) is compared with plain Python's: whole numbers exactly, floats
by a tolerance. Ratios are the other's time over that of `tw.jit`. First calls are in seconds, with compiling (empty
cache folder), from disk in another process, and Numba's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks._report import write_report
from benchmarks.loops import first_call, table
from benchmarks.loops.parallel_range import WITHOUT

os.environ[WITHOUT] = "1"  # this process only lists the programs

from benchmarks.loops import row as row_process
from benchmarks.loops.registry import LoopProgram, load
from benchmarks.loops.rivals import MAKERS, OURS

RESULTS = Path(__file__).resolve().parent.parent / "results" / "loops.json"


def said(module: str, mark: str, arguments: list[str], cache: str, seconds: float) -> tuple[str, str]:
    """What a process of ours says after a mark, and why there is nothing."""
    variables = {k: v for k, v in os.environ.items() if k != WITHOUT} | {"TILEWISE_CACHE_DIR": cache}
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "", f"took more than {seconds:.0f} s"
    for text in done.stdout.splitlines():
        if text.startswith(mark):
            return text.removeprefix(mark), ""
    return "", (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:300]


def measured(program: LoopProgram, options: Any) -> table.Row:
    """A row. If the process with all systems dies or hangs, `tw.jit` is left out of another, and has the blame."""
    common = [program.name, options.size]
    systems = options.systems.split(",")
    times = ["--seconds", str(options.seconds), "--judge", options.judge]
    with tempfile.TemporaryDirectory(prefix="loops-") as cache:
        asked = [*common, *times, "--systems", options.systems]
        text, why = said("benchmarks.loops.row", row_process.MARK, asked, cache, options.limit)
        if not text:
            others = ",".join(name for name in systems if name not in OURS)
            again = [*common, *times, "--systems", others]
            text, also = said("benchmarks.loops.row", row_process.MARK, again, cache, options.limit)
            empty = {"program": program.name, "seconds": {}, "first": {}, "problems": {"all": also}}
            row: table.Row = json.loads(text) if text else empty
            row["problems"]["tw.jit"] = row["refused"] = why
        else:
            row = json.loads(text)
            text, why = said("benchmarks.loops.first_call", first_call.MARK, common, cache, options.limit)
            if text:
                row["first"]["disk"] = float(text)
            else:
                row["problems"]["from disk"] = why
    row["parakeet"] = program.parakeet
    table.judge(row)
    return row


def main() -> int:
    """Measure, print, write; 1 if a result of ours is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", help="programs, families, or beginnings of their names, with commas between")
    parser.add_argument("--size", choices=("tiny", "small", "medium"), default="medium")
    parser.add_argument("--systems", default=",".join(MAKERS), help="with commas between; plain Python always runs")
    parser.add_argument("--seconds", type=float, default=1.0, help="for the turns of one program")
    parser.add_argument(
        "--judge", choices=("python", "c"), default="python", help="whose results are right; C is quick"
    )
    parser.add_argument("--limit", type=float, default=180.0, help="seconds after which a process is ended")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    names = tuple(options.names.split(",")) if options.names else ("",)
    programs = [p for p in load().values() if p.name.startswith(names) or p.family in names]
    if not programs:
        raise SystemExit(f"no program begins with {options.names}; there are {', '.join(load())}")
    print(table.heading(), flush=True)
    rows = []
    for program in programs:
        rows.append(measured(program, options))
        print(table.line(rows[-1]), flush=True)
    print(table.summary(rows))
    parts = {"size": options.size, "rows": rows, "totals": table.totals(rows)}
    write_report(options.output, parts)
    return int(any("tw.jit" in row["problems"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
