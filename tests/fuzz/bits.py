"""`python -m tests.fuzz.bits --cases 2000`: random programs give the same bits every time, whatever ran before them.

Each program runs many times in one process. New processes run the same ones, with one thread and with two, in one order
and in the other; every run of a program must give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy

import tilewise
from tests.bits.digest import digest
from tests.fuzz.generate import generate
from tests.fuzz.program import _Code, _helpers, data, quiet, steps
from tests.fuzz.thresholds import applied, chosen
from tilewise.array import operators
from tilewise.array.schedule import promote

# Threads, and whether the last case runs first.
PROCESSES = ((1, False), (2, False), (1, True), (2, True))
PROMOTE = "array.schedule.promote"
PROMOTED = {"LEAST_BYTES": 64, "LONG": 3}  # so that small loops are promoted, too


def real_data(seed: int, shape: tuple[int, ...], dtype: str, special: bool = False) -> Any:
    """As `data`, but of floats with all their bits: sums in another order are other numbers."""
    out = data(seed, shape, dtype, special)
    if out.dtype.kind in "fc":
        out = out + numpy.random.default_rng(seed).standard_normal(shape).astype(out.real.dtype)
    return numpy.asarray(out).astype(dtype)


@contextmanager
def setting(case: int) -> Iterator[None]:
    """Some recorded, some at once; in one case of eight, thresholds of large data are small."""
    with ExitStack() as stack:
        if case % 8 == 1:
            stack.enter_context(applied({t: v for t, v in chosen(case).items() if t.module != PROMOTE}))
        for name, value in PROMOTED.items():
            stack.enter_context(patch.object(promote, name, value))
        stack.enter_context(patch.object(operators, "LEAST_BYTES", PROMOTED["LEAST_BYTES"]))
        eager = (300, 2000, 100_000, 0)[case // 2 % 4]
        stack.enter_context(tilewise.config(eager_bytes=eager, fallback="silent"))
        yield


def digests(case: int, runs: int) -> list[str]:
    """What a program gives, again and again: all its variables, what it has exported and raised, as `name:digest`."""
    program = generate(case, large=True)
    code, found = _Code(), []
    with quiet(), setting(case):
        for _ in range(runs):
            kept: list[tuple[Any, Any]] = []
            names = _helpers(tilewise, kept)
            fixed = {*names, "__builtins__"}
            names["data"] = lambda *args: tilewise.asarray(real_data(*args))
            raised = []
            for number, line in steps(program):
                try:
                    code.run(number, line, names)
                except Exception as error:
                    raised.append(f"{number} {type(error).__name__}")
            mine = {k: v for k, v in sorted(names.items()) if k not in fixed and k != "__warningregistry__"}
            parts = {**mine, "exported": [k for k, _ in kept], "raised": raised}
            found.append(" ".join(f"{name}:{_digest(value)}" for name, value in parts.items()))
    return found


def _digest(value: Any) -> str:
    try:
        return digest(value)
    except Exception as error:  # data that a result hangs on are wrong
        return type(error).__name__


def _child(cases: range, runs: int) -> None:
    for case in cases:
        print(json.dumps([case, digests(case, runs)]), flush=True)


def started(cases: range, runs: int, threads: int) -> subprocess.Popen[str]:
    """A new process that runs these cases."""
    row = [sys.executable, "-m", "tests.fuzz.bits", "--child", *map(str, (cases.start, cases.stop, cases.step, runs))]
    environment = {**os.environ, "TILEWISE_THREADS": str(threads)}
    return subprocess.Popen(row, stdout=subprocess.PIPE, text=True, env=environment)


def compare(cases: range, runs: int) -> dict[int, list[str]]:
    """The cases whose bits differ, with all that was seen of them."""
    seen: dict[int, list[str]] = {case: [] for case in cases}
    for threads, backwards in PROCESSES:
        order = range(cases.stop - 1, cases.start - 1, -1) if backwards else cases
        child = started(order, runs, threads)
        assert child.stdout is not None
        for line in child.stdout:
            case, found = json.loads(line)
            seen[case] += found
        assert child.wait() == 0, "a process has failed"
    return {case: all_of for case, all_of in seen.items() if len(set(all_of)) != 1}


def differing(seen: list[str]) -> list[str]:
    """The variables whose bits are not the same in all runs."""
    found: dict[str, set[str]] = {}
    for pair in (pair for text in seen for pair in text.split()):
        name, _, bits = pair.partition(":")
        found.setdefault(name, set()).add(bits)
    return [name for name, bits in found.items() if len(bits) > 1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--runs", type=int, default=5, help="in each of four processes")
    parser.add_argument("--batch", type=int, default=250, help="cases of one process")
    parser.add_argument("--child", type=int, nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(range(*options.child[:3]), options.child[3])
        return 0
    failures = 0
    ends = [*range(options.seed, options.seed + options.cases, options.batch), options.seed + options.cases]
    for start, stop in pairwise(ends):
        for case, seen in compare(range(start, stop), options.runs).items():
            failures += 1
            names = {text: str(k) for k, text in enumerate(dict.fromkeys(seen))}
            print(f"case {case}: {' '.join(names[s] for s in seen)}: {' '.join(differing(seen))}", flush=True)
    print(f"{options.cases} programs from {options.seed}, {4 * options.runs} runs each: {failures} whose bits differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
