"""Times every program of tests/programs/collection under NumPy and under Tilewise.

    python -m benchmarks.programs [--module tilewise] [--repeat 15] [--limit-seconds 2] [name ...]

A program runs at its MEDIUM size (about 10 ms of NumPy) on fresh copies of inputs, made before the clock starts; its
results and its array arguments are asked for as NumPy arrays before the clock stops. NumPy and Tilewise take turns, so
that a busy machine slows both. "first" is Tilewise's first run, with all tracing and compiling; the ratio is that of
the best later runs. "noise" compares every other run of NumPy with the rest in the same way, upwards of 1: a ratio
means little where the noise is as large. Results that differ from NumPy's are reported, never timed as a success.
Threads of NumPy's BLAS are left as they are. The table and benchmarks/results/programs.json hold the same numbers.
"""

import argparse
import contextlib
import copy
import importlib
import importlib.util
import math
import os
import sys
import time
import warnings
from pathlib import Path

import numpy

from benchmarks._report import write_report

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "programs.json"
LIMITS = {"array": 1.5, "element": 4.0}


def load_runner():
    path = ROOT / "tests" / "programs" / "runner.py"
    spec = importlib.util.spec_from_file_location("programs_runner", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


runner = load_runner()


def settle(value):
    """Finishes pending work on an input, so that making it is not timed."""
    numpy.asarray(value)
    return value


def once(loaded, module, made):
    """(seconds, results and arguments as NumPy arrays) of one run on fresh copies of the inputs ``made``."""
    arguments = copy.deepcopy(made)
    if module is not numpy:
        arguments = runner.convert(arguments, lambda value: settle(module.array(value)))
    start = time.perf_counter()
    answer = runner.execute(loaded, arguments)
    return time.perf_counter() - start, answer


def measure(name, module, repeat, limit_seconds):
    """One row of the table. After ``limit_seconds`` of Tilewise there are no further repeats."""
    plain, replaced = runner.load(name), runner.load(name, module)
    row = {"name": name, "kind": plain.KIND, "n": plain.MEDIUM, "limit": LIMITS[plain.KIND]}
    made = plain.initialize(plain.MEDIUM)
    seconds, expected = once(plain, numpy, made)
    times = {"numpy": [seconds], "module": []}
    try:
        row["first_s"], answer = once(replaced, module, made)
        runner.compare(expected, answer)
        spent = 0.0
        while not times["module"] or (len(times["module"]) < repeat and spent < limit_seconds):
            times["numpy"].append(once(plain, numpy, made)[0])
            seconds, answer = once(replaced, module, made)
            times["module"].append(seconds)
            spent += seconds
        runner.compare(expected, answer)
    except Exception as error:
        row |= {"numpy_s": min(times["numpy"]), "error": f"{type(error).__name__}: {error}"[:300]}
        return row
    row |= {"numpy_s": min(times["numpy"]), "second_s": times["module"][0], "best_s": min(times["module"])}
    row |= {"runs": len(times["module"]), "ratio": row["best_s"] / row["numpy_s"]}
    halves = min(times["numpy"][0::2]), min(times["numpy"][1::2])
    row["noise"] = max(halves) / min(halves)
    row["second_ratio"] = row["second_s"] / row["numpy_s"]
    row["exceeds"] = row["ratio"] > row["limit"]
    return row


def line(row):
    start = f"{row['name']:<28}{row['kind']:<9}{row['n']:>8}{row['numpy_s'] * 1e3:>10.2f}"
    if "error" in row:
        return f"{start}  {row['error'][:120]}"
    times = "".join(f"{row[key] * 1e3:>10.2f}" for key in ("first_s", "second_s", "best_s"))
    over = f"  over {row['limit']}" if row["exceeds"] else ""
    return f"{start}{times}{row['ratio']:>8.2f}{row['noise']:>8.2f}{over}"


def mean(values):
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def summary(rows):
    result = {}
    for kind in LIMITS:
        chosen = [row for row in rows if row["kind"] == kind]
        done = [row for row in chosen if "error" not in row]
        result[kind] = {
            "programs": len(chosen),
            "agree": len(done),
            "within": sum(not row["exceeds"] for row in done),
            "limit": LIMITS[kind],
            "geometric_mean": mean([row["ratio"] for row in done]),
            "over": [row["name"] for row in done if row["exceeds"]],
            "failed": [row["name"] for row in chosen if "error" in row],
        }
    return result


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs (all of them)")
    parser.add_argument("--module", default="tilewise", help="the module in NumPy's place")
    parser.add_argument("--repeat", type=int, default=15, help="runs after the first")
    parser.add_argument("--limit-seconds", type=float, default=2.0, help="time for a program's repeats")
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_args(arguments)
    module = importlib.import_module(options.module)
    config = getattr(module, "config", None)
    rows = []
    with config(fallback="silent") if config else contextlib.nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in options.names or runner.names():
            rows.append(measure(name, module, options.repeat, options.limit_seconds))
            if sys.stderr.isatty():
                print(f"\r{len(rows):>4} {name:<40}\r", end="", file=sys.stderr, flush=True)
    rows.sort(key=lambda row: row.get("ratio", math.inf))
    titles = "".join(f"{title:>10}" for title in ("numpy ms", "first", "second", "best"))
    print(f"{'program':<28}{'kind':<9}{'n':>8}{titles}{'ratio':>8}{'noise':>8}")
    for row in rows:
        print(line(row))
    totals = summary(rows)
    for kind, total in totals.items():
        if total["programs"]:
            ratio = f"{total['geometric_mean']:.2f}" if total["agree"] else "-"
            print(f"{kind}: {total['within']} of {total['programs']} within {total['limit']}, geometric mean {ratio}")
            for key in ("over", "failed"):
                if total[key]:
                    print(f"  {key}: {', '.join(total[key])}")
    parts = {"module": options.module, "summary": totals, "programs": rows}
    write_report(options.output, parts, blas_threads=os.environ.get("OPENBLAS_NUM_THREADS"))
    return 1 if any(total["over"] or total["failed"] for total in totals.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
