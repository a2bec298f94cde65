"""What workers in processes of their own cost beside the local engine. Out: a table and JSON.

    python -m benchmarks.ray_programs [--only name,…] [--repeat 7] [--scale 1.0] [--output …]

The same programs, data in place, each evaluated as often as fits into some tenths of a second before the clock is read.
`one` is Ray with one worker and as many threads as there are cores: the goal is 1.2 times the local time plus 1 ms.
`two` is Ray with two workers of one thread each, beside the local engine with two threads: the goal is 1.3. Engines
take turns, and each time is the best of some.
"""

from __future__ import annotations

import argparse
import contextvars
import json
import math
import os
import platform
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import tilewise as tw
from benchmarks.kernels.registry import Program, load, uniform

RESULTS = Path(__file__).resolve().parent / "results" / "ray_programs.json"
NAMES = "kmeans_one_hot kmeans_bincount logistic_gradient standardise pca jacobi black_scholes".split()
ONE_GOAL, ONE_SPARE_S, TWO_GOAL = 1.2, 1e-3, 1.3
SECONDS = 0.3  # of one measurement
ENGINES: dict[str, dict[str, Any]] = {
    "local": {"threads": 2},
    "one": {"engine": "ray", "workers": 1, "threads": 2},
    "two": {"engine": "ray", "workers": 2, "threads": 1},
}


def pca(np: Any, X: Any) -> Any:
    """Directions of the largest variances."""
    centred = X - X.mean(0)
    return np.linalg.eigh(centred.T @ centred / len(X))


PCA = Program("pca", pca, lambda n: (uniform(n // 50, 50),), 8_000_000)


def prepared(program: Program, inputs: tuple[Any, ...]) -> Callable[[int], float]:
    """Seconds of one evaluation among as many as are asked for, on the session of the moment."""
    given = [tw.asarray(x) if hasattr(x, "shape") else x for x in inputs]

    def evaluate(times: int) -> float:
        began = time.perf_counter()
        for _ in range(times):
            out = program.source(tw, *given)
            results = tw.evaluate(*(out if isinstance(out, tuple) else (out,)))
        last = results[-1] if isinstance(results, tuple) else results
        float(last.ravel()[0])  # plans run ahead: wait for the last
        return (time.perf_counter() - began) / times

    evaluate(3)
    return evaluate


def measure(program: Program, engines: dict[str, contextvars.Context], repeat: int, scale: float) -> dict[str, float]:
    """The best time on each engine."""
    inputs = program.inputs(int(program.size * scale))
    run = {name: context.run(prepared, program, inputs) for name, context in engines.items()}
    once = engines["local"].run(run["local"], 2)
    times = max(1, math.ceil(SECONDS / once))
    seen: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(repeat):
        for name, context in engines.items():
            seen[name].append(context.run(run[name], times))
    return {name: min(found) for name, found in seen.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    programs, rows = load() | {PCA.name: PCA}, []
    with ExitStack() as stack:
        engines = {}
        for name, options in ENGINES.items():
            engines[name] = contextvars.copy_context()
            session = tw.session(**options)
            engines[name].run(session.__enter__)
            stack.callback(engines[name].run, session.__exit__, None, None, None)
        print(f"{'program':18} {'local':>9} {'one':>9} {'ratio':>6}   {'two':>9} {'ratio':>6}")
        for name in args.only.split(","):
            row: dict[str, Any] = measure(programs[name], engines, args.repeat, args.scale)
            local, one, two = row["local"], row["one"], row["two"]
            row |= {"name": name, "one_ok": one <= ONE_GOAL * local + ONE_SPARE_S, "two_ok": two <= TWO_GOAL * local}
            rows.append(row)
            print(
                f"{name:18} {local * 1e3:8.2f}m {one * 1e3:8.2f}m {one / local:6.2f} {'' if row['one_ok'] else '!':1} "
                f"{two * 1e3:8.2f}m {two / local:6.2f} {'' if row['two_ok'] else '!'}",
                flush=True,
            )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps({"cpu": platform.machine(), "cores": os.cpu_count(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
