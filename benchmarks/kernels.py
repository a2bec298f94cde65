"""Fused kernels against NumPy, Numba and JAX, and the memory's bandwidth. In: options. Out: a table and JSON.

    python -m benchmarks.kernels [--n 20000000] [--repeat 7] [--only numpy,numba,jax] [--json PATH]

All systems run in one process, turn by turn, so that ratios are of the same minutes. Each time is the best of the
turns. Results of Tilewise go to pooled buffers, as they do in a program.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.store import pool
from tilewise.target import llvm, threads

Array = np.ndarray[Any, Any]
Program = Callable[..., Any]
F8 = "float64"
RESULTS = Path(__file__).parent / "results" / "kernels.json"


class Trace:
    """Writes a kernel body: t.add(x, y) appends an instruction and returns its value number."""

    def __init__(self, inputs: int, params: int = 0) -> None:
        self.inputs, self.params = inputs, params
        self.body: list[Instr] = []

    def __getattr__(self, fn: str) -> Callable[..., int]:
        return lambda *args: self.emit(fn, *args)

    def emit(self, fn: str, *args: int) -> int:
        self.body.append(Instr(fn, args, F8))
        return self.inputs + self.params + len(self.body) - 1

    def const(self, value: float) -> int:
        return self.emit(f"const:{value!r}")

    def kernel(self, *outputs: Output, reduced: bool = False) -> Kernel:
        return Kernel((F8,) * self.inputs, (F8,) * self.params, tuple(self.body), outputs, (reduced,))


def chain_kernel() -> Kernel:
    """(a + b) * c - a / d"""
    t = Trace(4)
    return t.kernel(Output(t.subtract(t.multiply(t.add(0, 1), 2), t.divide(0, 3))))


def sum_kernel() -> Kernel:
    """((a - b)**2 * c).sum()"""
    t = Trace(3)
    return t.kernel(Output(t.multiply(t.square(t.subtract(0, 1)), 2), "add"), reduced=True)


def black_scholes_kernel() -> Kernel:
    """Call and put prices from spot, strike, time; rate and volatility are params."""
    t = Trace(3, 2)
    s, k, time_, rate, vol = range(5)
    half, one, root_half = t.const(0.5), t.const(1.0), t.const(math.sqrt(0.5))
    spread = t.multiply(vol, t.sqrt(time_))
    drift = t.multiply(t.add(rate, t.multiply(half, t.square(vol))), time_)
    d1 = t.divide(t.add(t.log(t.divide(s, k)), drift), spread)
    d2 = t.subtract(d1, spread)

    def cdf(d: int) -> int:
        return t.multiply(half, t.add(one, t.erf(t.multiply(d, root_half))))

    n1, n2 = cdf(d1), cdf(d2)
    discounted = t.multiply(k, t.exp(t.negative(t.multiply(rate, time_))))
    call = t.subtract(t.multiply(s, n1), t.multiply(discounted, n2))
    put = t.subtract(t.multiply(discounted, t.subtract(one, n2)), t.multiply(s, t.subtract(one, n1)))
    return t.kernel(Output(call), Output(put))


def tilewise_program(kernel: Kernel, params: tuple[float, ...] = ()) -> Program:
    compiled = llvm.compile(kernel)

    def run(*inputs: Array) -> list[Array]:
        outs = [pool.empty(() if o.reduce else inputs[0].shape, F8) for o in kernel.outputs]
        compiled(inputs[0].shape, inputs, params, outs)
        return outs

    return run


def numpy_programs(rate: float, vol: float) -> dict[str, Program]:
    from scipy.special import erf

    def black_scholes(s: Array, k: Array, t: Array) -> tuple[Array, Array]:
        spread = vol * np.sqrt(t)
        d1 = (np.log(s / k) + (rate + 0.5 * vol * vol) * t) / spread
        d2 = d1 - spread
        n1, n2 = 0.5 * (1 + erf(d1 * math.sqrt(0.5))), 0.5 * (1 + erf(d2 * math.sqrt(0.5)))
        discounted = k * np.exp(-rate * t)
        return s * n1 - discounted * n2, discounted * (1 - n2) - s * (1 - n1)

    return {
        "chain": lambda a, b, c, d: (a + b) * c - a / d,
        "sum": lambda a, b, c: ((a - b) ** 2 * c).sum(),
        "black_scholes": black_scholes,
    }


def numba_programs(rate: float, vol: float) -> dict[str, Program]:
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def chain(a: Array, b: Array, c: Array, d: Array) -> Array:
        return (a + b) * c - a / d

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
            spread = vol * math.sqrt(t[i])
            d1 = (math.log(s[i] / k[i]) + (rate + 0.5 * vol * vol) * t[i]) / spread
            d2 = d1 - spread
            n1 = 0.5 * (1 + math.erf(d1 * math.sqrt(0.5)))
            n2 = 0.5 * (1 + math.erf(d2 * math.sqrt(0.5)))
            discounted = k[i] * math.exp(-rate * t[i])
            call[i] = s[i] * n1 - discounted * n2
            put[i] = discounted * (1 - n2) - s[i] * (1 - n1)
        return call, put

    return {"chain": chain, "sum": total, "black_scholes": black_scholes}


def jax_programs(rate: float, vol: float) -> dict[str, Program]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

    def black_scholes(s: Any, k: Any, t: Any) -> Any:
        spread = vol * jnp.sqrt(t)
        d1 = (jnp.log(s / k) + (rate + 0.5 * vol * vol) * t) / spread
        d2 = d1 - spread
        n1 = 0.5 * (1 + jax.lax.erf(d1 * math.sqrt(0.5)))
        n2 = 0.5 * (1 + jax.lax.erf(d2 * math.sqrt(0.5)))
        discounted = k * jnp.exp(-rate * t)
        return s * n1 - discounted * n2, discounted * (1 - n2) - s * (1 - n1)

    sources: dict[str, Program] = {
        "chain": lambda a, b, c, d: (a + b) * c - a / d,
        "sum": lambda a, b, c: ((a - b) ** 2 * c).sum(),
        "black_scholes": black_scholes,
    }
    held: dict[int, Any] = {}  # JAX's own copies of the inputs, made before the clock starts

    def blocking(f: Program) -> Program:
        def run(*args: Array) -> Any:
            own = [held.setdefault(id(a), None) for a in args]
            for i, a in enumerate(args):
                if own[i] is None:
                    own[i] = held[id(a)] = jnp.asarray(a)
            return jax.block_until_ready(f(*own))

        return run

    return {name: blocking(jax.jit(f)) for name, f in sources.items()}


def best(programs: dict[str, tuple[Program, tuple[Any, ...]]], repeat: int) -> dict[str, float]:
    """Milliseconds per program: turn by turn, the best of all turns (the first, which compiles, does not count)."""
    times = {name: math.inf for name in programs}
    for f, args in programs.values():
        f(*args)
    for _ in range(repeat):
        for name, (f, args) in programs.items():
            start = time.perf_counter()
            result = f(*args)
            times[name] = min(times[name], (time.perf_counter() - start) * 1e3)
            del result
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20_000_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--only", default="numpy,numba,jax")
    options = parser.parse_args()
    n, rate, vol = options.n, 0.03, 0.3
    systems = options.only.split(",")
    rng = np.random.default_rng(0)
    a, b, c, d = (rng.uniform(0.5, 2.0, n) for _ in range(4))
    target = np.ones(n)
    kernels = {
        "chain": (chain_kernel(), ()),
        "sum": (sum_kernel(), ()),
        "black_scholes": (black_scholes_kernel(), (rate, vol)),
    }
    inputs = {"chain": (a, b, c, d), "sum": (a, b, c), "black_scholes": (a, b, c)}
    table: dict[str, dict[str, Program]] = {
        "tilewise": {name: tilewise_program(k, p) for name, (k, p) in kernels.items()}
    }
    for name, make in (("numpy", numpy_programs), ("numba", numba_programs), ("jax", jax_programs)):
        if name in systems:
            table[name] = make(rate, vol)
    report: dict[str, Any] = {"n": n, "threads": threads.get_threads(), "ms": {}}
    copy = best({"copy": (threads.parallel_copy, (target, a))}, options.repeat)["copy"]
    bandwidth = 2 * a.nbytes / copy / 1e6
    report["copy_gb_s"] = bandwidth
    print(f"{n} float64, {threads.get_threads()} threads; copy {copy:.1f} ms = {bandwidth:.1f} GB/s (read + write)")
    print(f"{'ms':>14}" + "".join(f"{s:>10}" for s in table) + f"{'GB/s':>8}  best of the others / tilewise")
    for name, args in inputs.items():
        programs = {s: (f[name], args) for s, f in table.items()}
        times = best(programs, options.repeat)
        kernel = kernels[name][0]
        moved = n * 8 * (len(kernel.inputs) + sum(o.reduce is None for o in kernel.outputs))
        others = [t for s, t in times.items() if s != "tilewise"]
        ratio = min(others) / times["tilewise"] if others else math.nan
        report["ms"][name] = times
        row = "".join(f"{t:>10.1f}" for t in times.values())
        print(f"{name:>14}{row}{moved / times['tilewise'] / 1e6:>8.1f}  {ratio:.2f}")
    options.json.parent.mkdir(exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
