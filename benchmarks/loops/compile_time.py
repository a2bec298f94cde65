"""Compile time against the length of functions: `python -m benchmarks.loops.compile_time [--most 2000] [--numba 50]`.

Generated functions of four kinds (numbers, deep branches, loop nests, slice statements), each compiled once with an
empty cache folder and called; Numba beside it up to a length. Out: a table of processor seconds (which other programs
on the machine hardly change) and of milliseconds per line, and JSON. "growth" is the time per line of the longest
function over that of the one a tenth as long: 1 is linear.
"""

from __future__ import annotations

import argparse
import importlib
import json
import linecache
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewise as tw

RESULTS = Path(__file__).resolve().parent.parent / "results" / "loops_compile_time.json"
DEEP = 6  # conditions around the innermost line of `branches`
LENGTHS = (20, 50, 100, 200, 500, 1000, 2000)


def numbers(k: int) -> list[str]:
    """A line of arithmetic, and now and then a condition."""
    names = [f"x{j}" for j in range(8)]
    a, b, c = names[k % 8], names[(3 * k + 1) % 8], names[(5 * k + 2) % 8]
    if k % 7 == 3:
        return [f"if {a} < {b}:", f"    {c} = {c} * 0.5 + {k % 11}.0"]
    return [f"{a} = {b} * {k % 5 + 1}.25 - {c} / {k % 3 + 2}.0"]


def branches(k: int) -> list[str]:
    """Conditions inside of each other, with a line on both sides of each."""
    lines, after = [], []
    for depth in range(DEEP):
        a, b = f"x{(k + depth) % 8}", f"x{(3 * k + 2 * depth + 1) % 8}"
        lines += [f"{'    ' * depth}if {a} < {depth}.25 * {b}:"]
        after += [f"{'    ' * depth}else:", f"{'    ' * depth}    {b} = {a} - {k % 7}.5"]
    within = "    " * DEEP
    pairs = [after[2 * depth : 2 * depth + 2] for depth in reversed(range(DEEP))]
    return [*lines, f"{within}x{k % 8} = x{(k + 5) % 8} * 0.5", *(text for pair in pairs for text in pair)]


def nests(k: int) -> list[str]:
    """A loop nest of four lines."""
    a, b = ("A", "B") if k % 2 else ("B", "A")
    return [
        "for i in range(1, n - 1):",
        "    for j in range(1, n - 1):",
        f"        {a}[i, j] = 0.{k % 8 + 1} * ({b}[i - 1, j] + {b}[i, j + 1])",
        f"        {a}[i, 0] += {a}[i, j]",
    ]


def slices(k: int) -> list[str]:
    """A slice statement."""
    a, b = ("A", "B") if k % 2 else ("B", "A")
    return [f"{a}[1:, :-1] = {b}[:-1, 1:] * 0.{k % 8 + 1} + {a}[1:, 1:]"]


KINDS: dict[str, Callable[[int], list[str]]] = {
    "numbers": numbers,
    "branches": branches,
    "nests": nests,
    "slices": slices,
}


def function(kind: str, length: int) -> Any:
    """A function of about so many lines."""
    first = "A[0, 0] + " if kind == "branches" else ""  # NumPy's floats on every way, so that names have one type
    body = ["n = A.shape[0]", *(f"x{k} = {first}{k + 1}.5" for k in range(8)), "for t in range(2):"]
    k = 0
    while len(body) < length:
        body += ["    " + text for text in KINDS[kind](k)]
        k += 1
    body += ["    x0 = x0 + A[0, 0]"]
    source = "\n    ".join(["def f(A, B):", *body, "return x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7"]) + "\n"
    name = f"<{kind} {length}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {"np": np, "__name__": "generated"}
    exec(compile(source, name, "exec"), names)
    return names["f"]


def arguments() -> tuple[Any, Any]:
    return np.ones((8, 8)), np.full((8, 8), 0.5)


def first_call(compiled: Any) -> float:
    """Processor seconds of a call that compiles."""
    args = arguments()
    start = time.process_time()
    compiled(*args)
    return time.process_time() - start


def right(compiled: Any, plain: Any) -> bool:
    """Whether a compiled function does what the plain one does."""
    mine, theirs = arguments(), arguments()
    results = np.asarray(compiled(*mine)), plain(*theirs)
    return all(
        np.allclose(x, y, equal_nan=True) for x, y in zip((*mine, results[0]), (*theirs, results[1]), strict=True)
    )


def measured(kind: str, length: int, numba_most: int) -> dict[str, Any]:
    """One row."""
    plain = function(kind, length)
    ours = tw.jit(plain)
    row: dict[str, Any] = {"kind": kind, "lines": length, "tw.jit": first_call(ours), "right": right(ours, plain)}
    try:
        tw.jit(plain, strict=True)(*arguments())
        row["refused"] = ""
    except Exception as error:
        row["refused"] = f"{type(error).__name__}: {error}".splitlines()[0]
    if length <= numba_most:
        row["numba"] = first_call(importlib.import_module("numba").njit(plain))
    return row


def line(row: dict[str, Any]) -> str:
    numba = f"{row['numba']:>10.3f}" if "numba" in row else f"{'-':>10}"
    told = ("" if row["right"] else "  WRONG") + (f"  refused: {row['refused']}" if row["refused"] else "")
    ms = row["tw.jit"] / row["lines"] * 1e3
    return f"{row['kind']:<10}{row['lines']:>7}{row['tw.jit']:>10.3f}{ms:>12.3f}{numba}{told}"


def growth(rows: list[dict[str, Any]]) -> float | None:
    """Time per line of the longest over that of one a tenth as long."""
    last = rows[-1]
    near = [r for r in rows if 10 * r["lines"] <= last["lines"]]
    return last["tw.jit"] / last["lines"] / (near[-1]["tw.jit"] / near[-1]["lines"]) if near else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=LENGTHS[-1], help="lines of the longest function")
    parser.add_argument("--numba", type=int, default=50, help="lines of the longest function for Numba; 0: none")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    print(f"{'kind':<10}{'lines':>7}{'tw.jit, s':>10}{'ms per line':>12}{'numba, s':>10}")
    found: dict[str, list[dict[str, Any]]] = {}
    folder = tempfile.TemporaryDirectory(prefix="loops-")
    with folder as cache, tw.config(cache_dir=cache, fallback="silent"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tw.jit(function("numbers", 10))(*arguments())  # loads LLVM
        if options.numba:
            importlib.import_module("numba").njit(function("numbers", 10))(*arguments())
        for kind in options.kinds.split(","):
            found[kind] = []
            for length in (n for n in LENGTHS if n <= options.most):
                found[kind].append(measured(kind, length, options.numba))
                print(line(found[kind][-1]), flush=True)
            print(f"{kind:<10} growth {growth(found[kind]) or float('nan'):.2f}", flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    report = {"rows": found, "growth": {kind: growth(rows) for kind, rows in found.items()}}
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written: {options.output}")
    return int(not all(row["right"] for rows in found.values() for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
