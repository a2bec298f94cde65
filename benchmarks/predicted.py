"""Times that plans predict beside measured ones, on the cores of this machine. Out: a table and JSON.

    python -m benchmarks.predicted [--repeat 9]

Each program is recorded, explained and evaluated; the time is the best of some, the prediction that of its plan. The
machine is measured just before (as by `tilewise calibrate`, into a folder of its own): where other programs run beside,
its rates change within minutes. 0.8 to 1.25 is within 25 %.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import tilewise as tw

RESULTS = Path(__file__).resolve().parent / "results" / "predicted.json"
rng = np.random.default_rng(0)
Program = tuple[Callable[..., Any], tuple[Any, ...]]


def jacobi(u: Any) -> Any:
    """One sweep in slices."""
    u = u.copy()
    u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


def kmeans(X: Any, C: Any) -> Any:
    """Labels, then means by a one-hot product."""
    near = ((X * X).sum(1)[:, None] - 2 * (X @ C.T) + (C * C).sum(1)).argmin(1)
    hot = (near[:, None] == tw.arange(len(C))).astype(float)
    return (hot.T @ X) / hot.sum(0)[:, None]


def gradients(A: Any, x: Any, b: Any) -> Any:
    """A step of conjugate gradients: a product, two dot products, an update."""
    r = b - A @ x
    return x + (r @ r) / (r @ (A @ r)) * r


def standardise(X: Any) -> Any:
    return (X - X.mean(0)) / X.std(0)


def chain(A: Any, B: Any, C: Any) -> Any:
    return A @ B @ C


def programs() -> dict[str, Program]:
    """The programs of the first collection, at two sizes each."""

    def normal(*shape: int) -> Any:
        return tw.asarray(rng.normal(size=shape))

    return {
        "Jacobi 2000^2": (jacobi, (normal(2000, 2000),)),
        "Jacobi 5000^2": (jacobi, (normal(5000, 5000),)),
        "k-means 100,000 x 50, 64": (kmeans, (normal(100_000, 50), normal(64, 50))),
        "k-means 500,000 x 50, 64": (kmeans, (normal(500_000, 50), normal(64, 50))),
        "conjugate gradients 3000^2": (gradients, (normal(3000, 3000), normal(3000), normal(3000))),
        "conjugate gradients 6000^2": (gradients, (normal(6000, 6000), normal(6000), normal(6000))),
        "standardise 200,000 x 50": (standardise, (normal(200_000, 50),)),
        "standardise 1,000,000 x 50": (standardise, (normal(1_000_000, 50),)),
        "product of three 1000^2": (chain, (normal(1000, 1000), normal(1000, 1000), normal(1000, 1000))),
        "product of three 2000^2": (chain, (normal(2000, 2000), normal(2000, 2000), normal(2000, 2000))),
        "sort 2,000,000": (tw.sort, (normal(2_000_000),)),
        "sort 10,000,000": (tw.sort, (normal(10_000_000),)),
    }


def measured(program: Callable[..., Any], given: tuple[Any, ...], repeat: int) -> tuple[float, float]:
    """Seconds predicted, and the best measured."""
    best = float("inf")
    predicted = tw.explain(program(*given)).seconds
    for _ in range(repeat):
        made = program(*given)
        start = time.perf_counter()
        tw.evaluate(made)
        best = min(best, time.perf_counter() - start)
        del made
    return predicted, best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9)
    options = parser.parse_args()
    rows = []
    print(f"{'program':<30}{'predicted ms':>14}{'measured ms':>14}{'ratio':>8}{'GB/s':>8}{'GFLOP/s':>9}")
    for name, (program, given) in programs().items():
        with tempfile.TemporaryDirectory() as folder:
            with tw.config(cache_dir=folder):
                rates, _ = tw.calibrate()
            with tw.config(eager_bytes=0, machine="measured", cache_dir=folder, flush=False):
                predicted, best = measured(program, given, options.repeat)
        rows.append({"program": name, "predicted_ms": predicted * 1e3, "measured_ms": best * 1e3} | asdict(rates))
        ratio = best / predicted
        limits = f"{rates.memory_rate / 1e9:>8.1f}{rates.flop_rate / 1e9:>9.1f}"
        mark = "" if 0.8 <= ratio <= 1.25 else "  !"
        print(f"{name:<30}{predicted * 1e3:>14.2f}{best * 1e3:>14.2f}{ratio:>8.2f}{limits}{mark}", flush=True)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"written: {RESULTS}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
