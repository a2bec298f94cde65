"""Random loops, run: what @tw.parallel gives against the plain loop. In: a case. Out: the first thing that differs.

`python -m tests.fuzz.parfor.running --cases 300` runs them in all modes, with bodies as array expressions and machine
code wherever that is possible.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import linecache
import sys
from typing import Any

import numpy as np

import tilewise as tw
from tests.fuzz.parfor.generate import SETUP, Case, generate

NAMES = "A B M C P D K L d E G H Z V R Q T F W S0 n s t u big put move get row O U N Y X functools".split()
OUT = "s big i".split()  # t and u are private where a loop is accepted


def program(case: Case, options: str) -> str:
    """A function with the loop; it returns what may have changed."""
    head, _, body = case.source.partition("\n")
    body = body.split("\nprint(", 1)[0]
    span = head.removeprefix("for i in parfor(").removesuffix("):")
    lines = [f"def program({', '.join(NAMES)}):", "    i = None", f"    for i in tw.parfor(range({span}){options}):"]
    lines += ["    " + line for line in body.split("\n")]
    return "\n".join([*lines, f"    return ({', '.join(OUT)})"]) + "\n"


def run(case: Case, options: str, parallel: bool) -> tuple[Any, dict[str, Any]]:
    """What the function returns, and the values of all names afterwards."""
    names: dict[str, Any] = {"tw": tw, "parfor": tw.parfor}
    text = program(case, options)
    for source in (SETUP, text):
        file = f"<program {hash(source)}>"  # functions in it have source for those who ask
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), names)
    function = tw.parallel(names["program"]) if parallel else names["program"]
    out = function(*(names[n] for n in NAMES))
    return out, {n: names[n] for n in NAMES if not callable(names[n])}


def equal(a: Any, b: Any) -> bool:
    """Equal but for the rounding of sums."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and bool(np.allclose(a, b, rtol=1e-9, equal_nan=True))
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if type(a).__name__ == "Thing":
        return equal(vars(a), vars(b))
    if isinstance(a, float):
        return bool(np.isclose(a, b, rtol=1e-9))
    return bool(a == b)


def difference(seed: int, mode: str | None, workers: int) -> str | None:
    """What a loop does otherwise than the plain one; None also for loops that are refused, or raise."""
    case = generate(seed)
    options = f", mode={mode!r}, workers={workers}"
    try:
        expected, held = run(case, options, parallel=False)
    except (IndexError, KeyError, ValueError):
        return None
    try:
        got, found = run(case, options, parallel=True)
    except tw.ParforError:
        return None
    for name, a, b in [*zip(OUT, expected, got, strict=True), *((n, held[n], found[n]) for n in held)]:
        if not equal(a, b):
            return f"{name}: {a} instead of {b}\n{program(case, options)}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    options = parser.parse_args()
    choose = importlib.import_module("tilewise.parfor.bodies.choose")
    choose.WORTH_SECONDS = choose.FASTER = 0.0
    ran = wrong = 0
    for seed in itertools.count(options.seed):
        found = difference(seed, (None, "threads", "processes")[seed % 3], 2 + seed % 3)
        ran += found is not None
        if found:
            wrong += 1
            print(f"case {seed}: {found}", flush=True)
        if ran >= options.cases or wrong >= 5:
            break
    print(f"{ran} loops ran, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
