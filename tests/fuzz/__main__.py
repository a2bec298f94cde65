"""`python -m tests.fuzz --cases 20000 --seed 0`: random programs against NumPy; prints each failure, made small."""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from collections import Counter

from tests.fuzz.generate import generate
from tests.fuzz.program import Difference, Invalid, Program, Setting, Trace, compare, model, permitted, source
from tests.fuzz.settings import Fault, settings_of, small_settings_of
from tests.fuzz.shrink import shrink

SAID = 1000  # cases after which it says how far it is


def difference(program: Program, setting: Setting) -> Difference | None:
    """The first difference from NumPy; None also for programs that are none."""
    try:
        return _difference(program, model(program), setting)
    except Invalid:
        return None


def _difference(program: Program, trace: Trace, setting: Setting) -> Difference | None:
    found = compare(program, trace, setting, Fault)
    return None if found is not None and permitted(program, trace, setting, found, Fault) else found


def minimal(program: Program, setting: Setting, found: Difference, seconds: float = 60.0) -> tuple[Program, Difference]:
    """A small program with the same kind of difference."""

    def fails(smaller: Program) -> bool:
        other = difference(smaller, setting)
        return other is not None and other.kind == found.kind

    small = shrink(program, fails, seconds)
    return small, difference(small, setting) or found


def check(
    case: int, native: float = 0.125, only: str = "", without: str = "-", small: bool = False
) -> tuple[str, Program, Setting, Difference] | None:
    """Run one case under its settings (small: one with larger arrays, under small thresholds)."""
    program = generate(case, large=small)
    trace = model(program)
    for name, setting in (small_settings_of(case) if small else settings_of(case, native)).items():
        if only in name and without not in name:
            found = _difference(program, trace, setting)
            if found is not None:
                return name, program, setting, found
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument(
        "--step",
        type=int,
        default=1,
        help="from case to case (5, 12: of turns, all)",
    )
    parser.add_argument("--native", type=float, default=0.125, help="share of cases that are also run as machine code")
    parser.add_argument("--failures", type=int, default=10, help="stop after so many")
    parser.add_argument("--only", default="", help="only settings whose name has this text")
    parser.add_argument("--without", default="-", help="no settings whose name has this text")
    parser.add_argument("--shrink", type=float, default=30.0, help="seconds for shrinking one failure")
    parser.add_argument("--thresholds", action="store_true", help="thresholds of large data are small")
    options = parser.parse_args()
    faulthandler.enable()
    cases = range(options.seed, options.seed + options.cases * options.step, options.step)
    chosen = small_settings_of if options.thresholds else lambda case: settings_of(case, options.native)
    if not any(options.only in name and options.without not in name for case in cases[:100] for name in chosen(case)):
        parser.error(f"no setting has {options.only!r} in its name; they are {sorted(chosen(cases[0]))} and so on")
    kinds: Counter[str] = Counter()
    start = time.monotonic()
    for case in cases:
        done = (case - options.seed) // options.step
        if done and done % SAID == 0:
            print(f"{done} cases in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        bad = check(case, options.native, options.only, options.without, options.thresholds)
        if bad is None:
            continue
        name, program, setting, found = bad
        kinds[found.kind] += 1
        small, found = minimal(program, setting, found, options.shrink)
        print(f"\n=== case {case}: {found}\n{source(small, name)}", flush=True)
        if kinds.total() >= options.failures:
            break
    taken = time.monotonic() - start
    print(f"\n{cases.index(case) + 1} cases in {taken:.0f} s, {kinds.total()} failures {dict(kinds)}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
