"""Fused programs against NumPy, Numba and JAX, with bandwidth and peak memory beside. Out: a table and JSON.

    python -m benchmarks.fused [--sizes 1000000,20000000] [--repeat 7] [--only numpy,numba,jax] [--no-memory]

The same NumPy source runs under NumPy and Tilewise. All systems run in one process, turn by turn, so that ratios are
of the same minutes. Each time is the best of the turns; inputs are known arrays, results are evaluated inside the
timing. Peak memory is that of a fresh process with the inputs made, above what it had then.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import erf

import tilewise as tw
from tilewise.store import pool
from tilewise.target import threads

Array = np.ndarray[Any, Any]
Program = Callable[..., Any]
RESULTS = Path(__file__).parent / "results" / "fused.json"
RATE, VOL = 0.03, 0.3
ROOT_HALF = math.sqrt(0.5)


def sources(np: Any, erf: Any) -> dict[str, Program]:
    """The programs, written for NumPy."""

    def black_scholes(s: Any, k: Any, t: Any) -> Any:
        spread = VOL * np.sqrt(t)
        d1 = (np.log(s / k) + (RATE + 0.5 * VOL * VOL) * t) / spread
        d2 = d1 - spread
        n1, n2 = 0.5 * (1 + erf(d1 * ROOT_HALF)), 0.5 * (1 + erf(d2 * ROOT_HALF))
        discounted = k * np.exp(-RATE * t)
        return s * n1 - discounted * n2, discounted * (1 - n2) - s * (1 - n1)

    return {
        "chain": lambda a, b, c: 2 * a * b + c - a / 3 + b * c,
        "sum": lambda a, b, c: ((a - b) ** 2 * c).sum(),
        "black_scholes": black_scholes,
    }


def tilewise_programs() -> dict[str, Program]:
    held: dict[int, Any] = {}

    def evaluating(f: Program) -> Program:
        def run(*args: Array) -> Any:
            result = f(*(held.setdefault(id(a), tw.asarray(a)) if id(a) not in held else held[id(a)] for a in args))
            return tw.evaluate(*result) if isinstance(result, tuple) else tw.evaluate(result)

        return run

    return {name: evaluating(f) for name, f in sources(tw, tw.special.erf).items()}


def numba_programs() -> dict[str, Program]:
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def chain(a: Array, b: Array, c: Array) -> Array:
        return 2 * a * b + c - a / 3 + b * c

    @numba.njit(parallel=True, fastmath=True)
    def total(a: Array, b: Array, c: Array) -> float:
        acc = 0.0
        for i in numba.prange(a.size):
            acc += (a[i] - b[i]) ** 2 * c[i]
        return acc

    @numba.njit(parallel=True, fastmath=True)
    def black_scholes(s: Array, k: Array, t: Array) -> tuple[Array, Array]:
        call, put = np.empty_like(s), np.empty_like(s)
        for i in numba.prange(s.size):
            spread = VOL * math.sqrt(t[i])
            d1 = (math.log(s[i] / k[i]) + (RATE + 0.5 * VOL * VOL) * t[i]) / spread
            d2 = d1 - spread
            n1 = 0.5 * (1 + math.erf(d1 * ROOT_HALF))
            n2 = 0.5 * (1 + math.erf(d2 * ROOT_HALF))
            discounted = k[i] * math.exp(-RATE * t[i])
            call[i] = s[i] * n1 - discounted * n2
            put[i] = discounted * (1 - n2) - s[i] * (1 - n1)
        return call, put

    return {"chain": chain, "sum": total, "black_scholes": black_scholes}


def jax_programs() -> dict[str, Program]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
    held: dict[int, Any] = {}  # JAX's own copies of the inputs, made before the clock starts

    def blocking(f: Program) -> Program:
        def run(*args: Array) -> Any:
            own = [held[id(a)] if id(a) in held else held.setdefault(id(a), jnp.asarray(a)) for a in args]
            return jax.block_until_ready(f(*own))

        return run

    return {name: blocking(jax.jit(f)) for name, f in sources(jnp, jax.lax.erf).items()}


def inputs(name: str, n: int) -> tuple[Array, ...]:
    rng = np.random.default_rng(0)
    if name == "black_scholes":
        return rng.uniform(50, 150, n), rng.uniform(50, 150, n), rng.uniform(0.1, 2, n)
    return rng.random(n), rng.random(n), rng.random(n)


def turns(programs: dict[str, Program], args: tuple[Array, ...], repeat: int) -> dict[str, float]:
    """Milliseconds per system: turn by turn, the best of all turns (the first, which compiles, does not count)."""
    times = {name: math.inf for name in programs}
    for f in programs.values():
        f(*args)
    for _ in range(repeat):
        for name, f in programs.items():
            start = time.perf_counter()
            result = f(*args)
            times[name] = min(times[name], (time.perf_counter() - start) * 1e3)
            del result
    return times


def peak(system: str, name: str, n: int) -> float:
    """MiB above the inputs, in a process of its own."""
    code = f"from benchmarks.fused import peak_here; print(peak_here({system!r}, {name!r}, {n}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(run.stdout.split()[-1])


def high_water(start_over: bool = False) -> int:
    """The most memory this process has had, in KiB (getrusage would count the parent's)."""
    if start_over:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def peak_here(system: str, name: str, n: int) -> float:
    args = inputs(name, n)
    tiny = inputs(name, 1000)
    program = tilewise_programs()[name] if system == "tilewise" else sources(np, erf)[name]
    given = args
    if system == "tilewise":
        with tw.config(eager_bytes=0):
            program(*tiny)  # compiles: its memory is the compiler's
        given = tuple(tw.asarray(a) for a in args)
        del args
        plain = sources(tw, tw.special.erf)[name]
        pool.trim()
        before = high_water(start_over=True)
        result = plain(*given)
        tw.evaluate(*result) if isinstance(result, tuple) else tw.evaluate(result)
    else:
        program(*tiny)
        before = high_water(start_over=True)
        result = program(*given)
    return (high_water() - before) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000000,20000000")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--only", default="numpy,numba,jax")
    parser.add_argument("--no-memory", action="store_true")
    options = parser.parse_args()
    makers: dict[str, Callable[[], dict[str, Program]]] = {
        "numpy": lambda: sources(np, erf),
        "numba": numba_programs,
        "jax": jax_programs,
    }
    peers = {peer: makers[peer]() for peer in options.only.split(",")}
    mine = tilewise_programs()
    rows = []
    print(
        f"{'program':<14} {'n':>10} {'tilewise':>9} "
        + " ".join(f"{p:>9}" for p in peers)
        + "  best/ours    GB/s  copy GB/s"
    )
    for n in map(int, options.sizes.split(",")):
        target, source = np.empty(n), np.ones(n)
        copy = turns({"copy": lambda a: threads.parallel_copy(target, a)}, (source,), options.repeat)["copy"]  # noqa: B023
        for name in mine:
            args = inputs(name, n)
            times = turns({"tilewise": mine[name], **{p: f[name] for p, f in peers.items()}}, args, options.repeat)
            streams = {"chain": 4, "sum": 3, "black_scholes": 5}[name]
            ours = times["tilewise"]
            ratio = min(t for p, t in times.items() if p != "tilewise") / ours
            rate, limit = streams * 8 * n / ours / 1e6, 16 * n / copy / 1e6
            rows.append(
                {"program": name, "n": n, "ms": times, "best_peer_over_ours": ratio, "GB/s": rate, "copy GB/s": limit}
            )
            shown = " ".join(f"{times[p]:>9.2f}" for p in peers)
            print(f"{name:<14} {n:>10} {ours:>9.2f} {shown} {ratio:>10.2f} {rate:>7.1f} {limit:>10.1f}", flush=True)
    if not options.no_memory:
        n = max(map(int, options.sizes.split(",")))
        print(f"peak memory above the inputs, n = {n}, MiB")
        for name in mine:
            found = {system: peak(system, name, n) for system in ("tilewise", "numpy")}
            rows.append({"program": name, "n": n, "peak_MiB": found})
            print(f"{name:<14} tilewise {found['tilewise']:>8.0f}   numpy {found['numpy']:>8.0f}", flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
