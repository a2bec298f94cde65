"""Plans of parallel loops against the clock. In: options. Out: tables of constants and of choices, and JSON.

    python -m benchmarks.parfor_plan [--rounds 3] [--profile] [--output benchmarks/results/parfor_plan.json]

For each loop: the mode that the plan chooses, the time that it expects, and what each mode takes, in turns within one
process. `--profile` measures the rows of `tilewise/parfor/plan/profile.py` and the constants of `optimise.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewise as tw
from tilewise.parfor.plan.optimise import FORK_SECONDS, MERGE_RATE, THREAD_SECONDS
from tilewise.parfor.plan.profile import FIXED, measure

RESULTS = Path(__file__).resolve().parent / "results" / "parfor_plan.json"
MODES = ("here", "threads", "processes")


def correlations(X: Any, mode: str | None, workers: int | None) -> Any:
    """Many calls of some 50 us."""
    n = X.shape[1]
    R = np.zeros((n, n))
    for i in tw.parfor(range(n), mode=mode, workers=workers):
        for j in range(i, n):
            R[i, j] = X[:, i] @ X[:, j]
    return R


def ridge(X: Any, mode: str | None, workers: int | None) -> Any:
    """Few calls of BLAS that take long."""
    out = np.zeros((8, X.shape[1]))
    for k in tw.parfor(range(8), mode=mode, workers=workers):
        A = X[k * 1000 :]
        out[k] = np.linalg.solve(A.T @ A + np.eye(X.shape[1]), A.T @ A[:, 0])
    return out


def text(X: Any, mode: str | None, workers: int | None) -> Any:
    """The interpreter alone."""
    out = np.zeros(40)
    for i in tw.parfor(range(40), mode=mode, workers=workers):
        s = 0
        for k in range(20_000):
            s += (k * i) % 7
        out[i] = s
    return out


def tiny(X: Any, mode: str | None, workers: int | None) -> Any:
    """Nothing to gain."""
    out = np.zeros(50)
    for i in tw.parfor(range(50), mode=mode, workers=workers):
        out[i] = X[i, 0] * 2
    return out


def fills(X: Any, mode: str | None, workers: int | None) -> Any:
    """Large results: they are compared, sent and written."""
    out = np.ones((40, 100_000))
    for i in tw.parfor(range(40), mode=mode, workers=workers):
        out[i] = np.exp(X[:, i % 30])
    return out


LOOPS: tuple[Callable[..., Any], ...] = (correlations, ridge, text, tiny, fills)


def best(call: Callable[[], Any], rounds: int) -> float:
    """The least of several times."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def timed(function: Callable[..., Any], X: Any, mode: str, rounds: int) -> float:
    """A loop in a mode, on two workers."""
    return best(lambda: function(X, None if mode == "here" else mode, 1 if mode == "here" else 2), rounds)


def choices(rounds: int) -> list[dict[str, Any]]:
    """Each loop in each mode, and as the plan has it."""
    X = np.random.default_rng(0).normal(size=(100_000, 30))
    rows = []
    for loop in LOOPS:
        function = tw.parallel(loop)
        plan = tw.explain(function, X, None, None).loops[0].plan
        taken = {mode: timed(function, X, mode, rounds) for mode in MODES}
        rows.append(
            {
                "loop": loop.__name__,
                "chosen": plan.mode,
                "expected": plan.alternatives,
                "seconds": taken,
                "lost": taken[plan.mode] / min(taken.values()),
            }
        )
    return rows


def constants() -> dict[str, float]:
    """What starting workers and merging takes."""
    empty = tw.parallel(tiny)
    X = np.ones((100, 1))
    one, two = (best(lambda k=k: empty(X, "processes", k), 5) for k in (2, 6))
    few, many = (best(lambda k=k: empty(X, "threads", k), 5) for k in (2, 6))
    return {"fork": (two - one) / 4, "thread": (many - few) / 4}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = choices(options.rounds)
    print(f"{'loop':14}{'chosen':12}" + "".join(f"{mode:>12}" for mode in MODES) + f"{'expected':>12}{'lost':>8}")
    for row in rows:
        times = "".join(f"{row['seconds'][mode] * 1e3:10.1f}ms" for mode in MODES)
        expected = row["expected"][row["chosen"]] * 1e3
        print(f"{row['loop']:14}{row['chosen']:12}{times}{expected:10.1f}ms{row['lost']:8.2f}")
    found: dict[str, Any] = {"choices": rows}
    if options.profile:
        found["constants"] = constants()
        print(
            f"\nfork {found['constants']['fork']:.4f} s ({FORK_SECONDS}), thread {found['constants']['thread']:.5f} s "
        )
        print(f"({THREAD_SECONDS}); merge rate in use {MERGE_RATE:.2g} bytes/s")
        for kind, line in measure().items():
            found.setdefault("profile", {})[kind] = line
            print(
                f"{kind:10} {line.call:.2e} + {line.each:.2e} (in use {FIXED[kind].call:.2e} + {FIXED[kind].each:.2e})"
            )
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
