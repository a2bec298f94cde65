"""`python -m tests.fuzz.loops --cases 20000 --seed 0`: random loop functions by plain Python and by `tw.jit`.

Cases run in forked processes, so that one that crashes or hangs is a failure like others; each failure is made small
and printed as a script. With `--strict` it says how many compile whole, and what the others have in them.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import tilewise as tw
from tests.fuzz.loops.case import Case
from tests.fuzz.loops.check import Failure, check, refusal
from tests.fuzz.loops.generate import generate
from tests.fuzz.loops.isolate import Send, isolated
from tests.fuzz.loops.settings import Setting, all_settings, cheaply, settings_of
from tests.fuzz.loops.shrink import shrink

BATCH = 50  # cases in one process
SAID = 500  # cases after which it says how far it is


@dataclass
class Tally:
    """What a run has found."""

    failures: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    cases: int = 0


def failure_of(case: Case, settings: dict[str, Setting], number: int, options: Any) -> Failure | None:
    """The failure of a case in a process of its own, compiled as that of this number was."""

    def work(send: Send) -> None:
        with cheaply(number, options.good):
            send(check(case, settings))

    sent, end = isolated(work, options.limit)
    return sent[0] if sent else Failure(end, "")


def minimal(number: int, found: Failure, options: Any) -> tuple[Case, Failure]:
    """A small case with the same kind of failure."""
    settings = {k: v for k, v in all_settings().items() if k == found.setting} or all_settings()

    def fails(smaller: Case) -> bool:
        other = failure_of(smaller, settings, number, options)
        return other is not None and other.kind == found.kind

    small = shrink(generate(number), fails, options.shrink)
    return small, failure_of(small, settings, number, options) or found


def batch(cases: range, options: Any, tally: Tally) -> tuple[int, Failure] | None:
    """Run cases until one fails: its number and failure."""

    def work(send: Send) -> None:
        for number in cases:
            case = generate(number)
            send(number)
            with cheaply(number, options.good):
                found = check(case, settings_of(number) if not options.every else all_settings())
            send((found, "" if found or not options.strict else refusal(case)))
            if found:
                return

    sent, end = isolated(work, options.limit)
    done = [m for m in sent if isinstance(m, tuple)]
    tally.cases += len(done)
    for found, why in done:
        if why:
            tally.refusals[re.sub(r"\d+|'[^']*'|`[^`]*`", "…", why)[:100]] += 1
        if found:
            return sent[-2], found
    return (sent[-1] if sent else cases[0], Failure(end, "")) if end else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--failures", type=int, default=10, help="stop after so many")
    parser.add_argument("--shrink", type=float, default=40.0, help="seconds for shrinking one failure")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds after which a case hangs")
    parser.add_argument("--every", action="store_true", help="every case under every setting")
    parser.add_argument("--good", action="store_true", help="all of LLVM's passes for every case")
    parser.add_argument("--strict", action="store_true", help="count what is refused under strict=True")
    parser.add_argument("--show", action="store_true", help="print the cases instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tw.config(cache_dir=folder):  # not the user's
        return run(options)


def run(options: Any) -> int:
    """All cases; 1 if one has failed."""
    at, end = options.seed, options.seed + options.cases
    if options.show:
        for number in range(at, end):
            print(f"# {number}\n{generate(number).script()}\n")
        return 0
    tally, start, said = Tally(), time.monotonic(), 0
    while at < end and tally.failures.total() < options.failures:
        bad = batch(range(at, min(at + BATCH, end)), options, tally)
        at = min(at + BATCH, end) if bad is None else bad[0] + 1
        if tally.cases // SAID > said:
            said = tally.cases // SAID
            print(f"{tally.cases} cases in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        if bad is not None:
            tally.failures[bad[1].kind] += 1
            small, found = minimal(*bad, options)
            print(f"\n=== case {bad[0]}: {found}\n{small.script(found.calls)}", flush=True)
    taken = time.monotonic() - start
    print(f"\n{tally.cases} cases in {taken:.0f} s, {tally.failures.total()} failures {dict(tally.failures)}")
    if options.strict:
        print(f"{tally.cases - tally.refusals.total()} of {tally.cases} compiled under strict=True; refused:")
        for why, count in tally.refusals.most_common(20):
            print(f"{count:>6}  {why}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
