"""Measures programs. In: options. Out: rows, printed by table.py and written as JSON."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tilewise as tw
from benchmarks._report import write_report
from benchmarks.kernels import table
from benchmarks.kernels.limits import OURS, judge, yardsticks
from benchmarks.kernels.memory import peak
from benchmarks.kernels.plans import numpy_share
from benchmarks.kernels.registry import Program, load
from benchmarks.kernels.systems import MAKERS, Call, differs
from benchmarks.kernels.threads import THREADS
from benchmarks.kernels.timing import of, turns

RESULTS = Path(__file__).resolve().parent.parent / "results" / "kernels.json"
QUICK = 100_000  # elements at most
NINE, MOST = 9, 200  # turns of a median, and of a best time
Row = dict[str, Any]


def calls_of(
    program: Program, inputs: Any, size: int, systems: Sequence[str], problems: dict[str, str]
) -> dict[str, Call]:
    """A call per system that has the program; what fails or differs from NumPy is left out and told."""
    found: dict[str, Call] = {}
    expected: Any = None
    names = ["numpy", *(s for s in systems if s != "numpy")]
    if program.numpy_most is not None and size > program.numpy_most:
        names = ["c", *(s for s in systems if s not in ("numpy", "c"))]
    for system in names:
        try:
            call = MAKERS[system](program, inputs)
            if call is None:
                continue
            result = call()
            if expected is None:
                expected = tuple(map(np.copy, result)) if isinstance(result, tuple) else np.copy(result)
            elif wrong := differs(result, expected, program.rtol):
                problems[system] = wrong
                continue
        except Exception as error:
            problems[system] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            continue
        if system in systems:
            found[system] = call
    return found


def measured(program: Program, size: int, systems: Sequence[str], options: Any, *, alone: bool = False) -> Row:
    """One row: milliseconds per system, and what went wrong. `alone`: without limits and goals."""
    inputs = program.inputs(size)
    problems: dict[str, str] = {}
    calls = calls_of(program, inputs, size, systems, problems) | ({} if alone else yardsticks(program))
    least, most = (NINE, NINE) if program.median else (options.least, MOST)
    times = turns(calls, options.seconds, least, most)
    ms = {name: of(found, program.median) * 1e3 for name, found in times.items()}
    count = min(map(len, times.values()), default=0)
    row: Row = {"program": program.name, "size": size, "ms": ms, "turns": count, "problems": problems}
    if not alone:
        judge(row, program, inputs)
    return row


def parsed(text: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="programs, or beginnings of their names, with commas between")
    parser.add_argument("--systems", default=",".join(MAKERS), help="tilewise, c and peers, with commas between")
    parser.add_argument("--seconds", type=float, default=5.0, help="for the turns of one row, beyond the fewest")
    parser.add_argument("--least", type=int, default=3, help="turns of a row at least")
    parser.add_argument("--quick", action="store_true", help="small sizes, few turns")
    parser.add_argument("--fraction", type=float, default=1.0, help="of the table's sizes, for a slow machine")
    parser.add_argument("--no-scales", action="store_true", help="only the table, not NumPy at 1e3, 1e5 and 1e7")
    parser.add_argument("--memory", action="store_true", help="peak memory of NumPy and Tilewise, too")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.quick:
        options.seconds = min(options.seconds, 0.3)
    most = QUICK if options.quick else math.inf
    options.sized = lambda size: int(min(size, most, max(size * options.fraction, QUICK)))
    return options


def chosen(only: str | None) -> list[Program]:
    """Programs by the beginnings of their names."""
    names = tuple(only.split(",")) if only else ("",)
    found = [p for p in load().values() if p.name.startswith(names)]
    if not found:
        raise SystemExit(f"no program begins with {only}; there are {', '.join(load())}")
    return found


def main(text: str | None = None) -> int:
    """Measure, print, write; 1 if a result is wrong."""
    options = parsed(text)
    systems = options.systems.split(",")
    programs = chosen(options.only)
    print(table.heading(systems), flush=True)
    rows: list[Row] = []
    with tw.config(threads=THREADS, fallback="silent"), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for program in programs:
            for size in (program.size, *(() if options.quick else program.sizes)):
                row = measured(program, options.sized(size), systems, options)
                if size == program.size:
                    share = numpy_share(program, program.inputs(min(size, QUICK)))
                    row |= {"nodes": share.nodes, "numpy_nodes": sum(share.calls.values()), "numpy_calls": share.names}
                else:
                    row["met"] = None  # goals are for the first size
                rows.append(row)
                print(table.line(row, systems), flush=True)
        scaled = [] if options.no_scales else _scaled(programs, options)
        peaks = _peaks(programs, options) if options.memory else []
    print(table.summary(rows, scaled))
    write_report(options.json, {"rows": rows, "scales": scaled, "memory": peaks}, threads=THREADS)
    return int(any(not row["problems"].keys().isdisjoint(OURS) for row in (*rows, *scaled)))


def _scaled(programs: list[Program], options: Any) -> list[Row]:
    """NumPy and Tilewise at growing sizes."""
    print(table.scale_heading())
    found = []
    for program in programs:
        rows = []
        for size in program.scales:
            if (options.quick and size > QUICK) or size > (program.numpy_most or size):
                continue
            row = measured(program, size, [*OURS, "numpy"], argparse.Namespace(seconds=options.seconds / 5, least=3))
            if "tilewise" in row["ms"]:
                row["slowdown"] = min(row["ms"][name] for name in OURS if name in row["ms"]) / row["ms"]["numpy"]
                row["met"] = row["slowdown"] <= (table.SMALL_SLOWDOWN if size <= table.SMALL else 1.0)
            rows.append(row)
        print(table.scale_line(program.name, rows), flush=True)
        found += rows
    return found


def _peaks(programs: list[Program], options: Any) -> list[Row]:
    print(f"\n{'peak MiB above the inputs':<28}{'numpy':>10}{'tilewise':>10}")
    found = []
    for program in programs:
        size = options.sized(min(program.size, program.numpy_most or program.size))
        mib = {system: peak(program.name, system, size) for system in ("numpy", "tilewise")}
        found.append({"program": program.name, "size": size, "peak_MiB": mib, "met": mib["tilewise"] <= mib["numpy"]})
        more = "" if found[-1]["met"] else "  MORE"
        print(f"{program.name:<28}{mib['numpy']:>10.1f}{mib['tilewise']:>10.1f}{more}", flush=True)
    return found
