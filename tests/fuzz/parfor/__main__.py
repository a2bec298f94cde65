"""`python -m tests.fuzz.parfor --cases 20000`: no conflict may be missed; counts false alarms."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, NamedTuple

from tests.fuzz.parfor.generate import RECORDED, SETUP, Case, generate
from tests.fuzz.parfor.recording import Attributes, Cells, Grown, Log, Recorded, Scalars
from tilewise.parfor.analyse import analyse


class Answer(NamedTuple):
    clash: Any  # what brute force found
    verdict: Any


def brute_force(case: Case) -> Any:
    """What two iterations clash over; raises what the loop raises."""
    log = Log()
    classes = (Attributes, Cells, Grown, Recorded, Scalars)
    names: dict[str, Any] = {"log": log, **{c.__name__: c for c in classes}}
    exec(RECORDED, names)
    exec(case.recorded, names)
    scalars = names["S"].clash(case.live)
    for cell in [c for c in log.cells if isinstance(c, tuple) and c[0] in ("name", "assigned")]:
        del log.cells[cell]
    return scalars or log.clash()


def check(seed: int) -> tuple[Case, Answer] | None:
    """Both answers to a case; None for loops that raise."""
    case = generate(seed)
    try:
        clash = brute_force(case)
    except (IndexError, KeyError, ValueError):
        return None
    return case, Answer(clash, analyse(case.source, SETUP)[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--alarms", type=int, default=0, help="print so many false alarms")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    options = parser.parse_args()
    start = time.monotonic()
    independent = dependent = computed = alarms = missed = wrong_pairs = valid = 0
    seed = options.seed
    while valid < options.cases and missed < options.failures:
        found = check(seed)
        seed += 1
        if found is None:
            continue
        case, (clash, verdict) = found
        valid += 1
        computed += not case.affine
        dependent += clash is not None
        independent += clash is None
        if clash is not None and verdict.independent:
            missed += 1
            print(f"\n=== missed, case {seed - 1}: {clash}\n{case.source}\n--- {verdict}", flush=True)
        elif clash is None and not verdict.independent:
            alarms += 1
            if alarms <= options.alarms:
                print(f"\n=== false alarm, case {seed - 1}:\n{case.source}\n--- {verdict}", flush=True)
        if valid % 1000 == 0:
            print(f"{valid} loops so far: {missed} missed, {alarms} false alarms of {independent}", flush=True)
    taken = time.monotonic() - start
    share = 100 * alarms / max(independent, 1)
    print(
        f"{valid} loops in {taken:.0f} s: {dependent} dependent, {computed} with computed subscripts; "
        f"{missed} missed, {alarms} false alarms ({share:.1f} % of {independent} independent ones)"
    )
    return 1 if missed or wrong_pairs else 0


if __name__ == "__main__":
    sys.exit(main())
