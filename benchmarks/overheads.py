"""What Tilewise adds to small operations, beside NumPy and JAX. In: options. Out: a table and JSON.

    python -m benchmarks.overheads [--rounds 60] [--output benchmarks/results/overheads.json]

The systems take turns within one process, each time is the least of many rounds, so that a busy machine slows all
alike. Goals are absolute (µs) where the work is fixed. A row's "plan" part is the whole evaluation, from the force to
the result, without the recording of its operators.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tilewise as tw
from benchmarks._report import write_report

tw.config(wait_for_native=True)  # times are those of good code
RESULTS = Path(__file__).resolve().parent / "results" / "overheads.json"
SMALL = 1_000  # elements
LARGE = 4_000_000
Action = Callable[[Any], Any]


@dataclass(frozen=True)
class Row:
    """One operation: the statement, and how to set it up for a module."""

    name: str
    goal_us: float | None
    action: Action  # takes the state
    calls: int = 200  # per timed round
    systems: tuple[str, ...] = ("numpy", "tilewise")


class State:
    """The arrays of one system."""

    def __init__(self, module: Any, jax: bool = False) -> None:
        self.np = module
        self.x = module.ones(SMALL)
        self.y = module.ones(SMALL)
        self.A = module.ones((50, 50))
        self.mask = self.x > 0
        self.number = self.x.sum()
        if not jax:
            self.big = module.asarray(np.full(LARGE, 2.0))
            self.other = module.asarray(np.full(LARGE, 3.0))
            self.pending = self.big + self.other


def step(s: State) -> None:
    s.x = s.x * 0.99 + 0.01


def write(s: State) -> None:
    s.A[3, 4] = 1.5


def add_in_place(s: State) -> None:
    s.y += 0.0


ROWS = (
    Row("x + 1", 3.5, lambda s: s.x + 1, systems=("numpy", "tilewise", "jax")),
    Row("x = x * 0.99 + 0.01", 6.0, step, systems=("numpy", "tilewise", "jax")),
    Row("x + y", None, lambda s: s.x + s.y),
    Row("x += 0.0", None, add_in_place),
    Row("A[i, j]", None, lambda s: s.A[3, 4]),
    Row("A[i, j] = v", None, write),
    Row("A[i]", None, lambda s: s.A[3]),
    Row("A[i, :k]", None, lambda s: s.A[3, :7]),
    Row("x.sum()", None, lambda s: s.x.sum(), systems=("numpy", "tilewise", "jax")),
    Row("np.sum(x)", None, lambda s: s.np.sum(s.x)),
    Row("number + 1.0", None, lambda s: s.number + 1.0),
    Row("np.sqrt(x)", None, lambda s: s.np.sqrt(s.x)),
    Row("np.maximum(x, y)", None, lambda s: s.np.maximum(s.x, s.y)),
    Row("np.where(mask, x, y)", None, lambda s: s.np.where(s.mask, s.x, s.y)),
    Row("np.dot(x, y)", None, lambda s: s.np.dot(s.x, s.y)),
    Row("A @ A", None, lambda s: s.A @ s.A),
    Row("np.zeros(10)", None, lambda s: s.np.zeros(10)),
    Row("x.copy()", None, lambda s: s.x.copy()),
    Row("x.reshape(10, 100)", None, lambda s: s.x.reshape(10, 100)),
    Row("A.T", None, lambda s: s.A.T),
    Row("record big + other", 5.0, lambda s: s.big + s.other, systems=("tilewise",)),
    Row("record big * 0.5", 5.0, lambda s: s.big * 0.5, systems=("tilewise",)),
    Row("record pending * 0.5", 5.0, lambda s: s.pending * 0.5, systems=("tilewise",)),
)


def best(action: Action, state: State, calls: int) -> float:
    """Seconds per call of one round."""
    start = time.perf_counter()
    for _ in range(calls):
        action(state)
    return (time.perf_counter() - start) / calls


def ten(x: Any, y: Any, c: float) -> Any:
    """Ten operators."""
    return ((x + y) * c - x / (y + 2.5)) * (x - 0.5) + (y * y - x) / 3.5


def plan_hit() -> float:
    """Seconds of one evaluation of ten operators that were planned before: recorded outside of the clock."""
    with tw.config(eager_bytes=0):
        x, y = tw.asarray(np.ones(SMALL)), tw.asarray(np.ones(SMALL))
        np.asarray(x), np.asarray(y)
        least = 1.0
        for k in range(200):
            z = ten(x, y, 0.5 + k)
            start = time.perf_counter()
            np.asarray(z)
            least = min(least, time.perf_counter() - start)
    return least


def import_seconds(rounds: int = 7) -> tuple[float, float]:
    """(NumPy's import, Tilewise's), each in processes of its own."""
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    times: dict[str, list[float]] = {"numpy": [], "tilewise": []}
    for _ in range(rounds):
        for name, found in times.items():
            done = subprocess.run([sys.executable, "-c", code.format(name)], capture_output=True, text=True, check=True)
            found.append(float(done.stdout))
    return min(times["numpy"]), min(times["tilewise"])


def states() -> dict[str, State]:
    found = {"numpy": State(np), "tilewise": State(tw)}
    try:
        import jax

        jax.config.update("jax_enable_x64", True)
        found["jax"] = State(jax.numpy, jax=True)
    except ImportError:
        print("jax is not installed: no column for it")
    return found


def measure(rounds: int) -> list[dict[str, Any]]:
    """All rows."""
    systems = states()
    found = []
    for row in ROWS:
        least: dict[str, float] = {}
        for _ in range(rounds):
            for name in row.systems:
                if name in systems:
                    seconds = best(row.action, systems[name], row.calls)
                    least[name] = min(seconds, least.get(name, 1.0))
        found.append({"name": row.name, "goal_us": row.goal_us, "us": {n: s * 1e6 for n, s in least.items()}})
    hit = min(plan_hit() for _ in range(5))
    found.append({"name": "plan-cache hit, ten operators", "goal_us": 60.0, "us": {"tilewise": hit * 1e6}})
    plain, ours = import_seconds()
    found.append(
        {
            "name": "import (beyond NumPy's)",
            "goal_us": 300_000.0,
            "us": {"tilewise": (ours - plain) * 1e6, "numpy": plain * 1e6},
        }
    )
    return found


def line(row: dict[str, Any]) -> str:
    us = row["us"]
    cells = "".join(f"{us[n]:>12,.2f}" if n in us else " " * 12 for n in ("numpy", "tilewise", "jax"))
    ratio = (
        f"{us['tilewise'] / us['numpy']:>8.2f}" if "numpy" in us and not row["name"].startswith("import") else " " * 8
    )
    goal = ""
    if row["goal_us"] is not None:
        goal = f"{row['goal_us']:>12,.1f}  {'met' if us['tilewise'] <= row['goal_us'] else 'MISSED'}"
    return f"{row['name']:<32}{cells}{ratio}{goal}"


def main() -> int:
    """Print and write; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = measure(options.rounds)
    print(f"{'µs':<32}{'numpy':>12}{'tilewise':>12}{'jax':>12}{'ratio':>8}{'goal':>12}")
    for row in rows:
        print(line(row))
    write_report(options.output, {"rows": rows})
    return int(any(r["goal_us"] is not None and r["us"]["tilewise"] > r["goal_us"] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
