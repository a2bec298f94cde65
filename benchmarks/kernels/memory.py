"""Peak memory of a program. In: a program, a system, a size. Out: MiB above the inputs, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import tilewise as tw
from benchmarks.kernels.registry import load
from benchmarks.kernels.systems import evaluated, tilewise_inputs
from tilewise.store import pool

TINY = 3_000  # elements of a first run, which compiles


def peak(name: str, system: str, size: int) -> float:
    """MiB above what the process has with its inputs made."""
    code = f"from benchmarks.kernels.memory import peak_here; print(peak_here({name!r}, {system!r}, {size}))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else float("nan")


def high_water(*, start_over: bool = False) -> int:
    """The most memory this process has had, in KiB (getrusage would count the parent's)."""
    if start_over:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def peak_here(name: str, system: str, size: int) -> float:
    """The measurement; the process should be fresh."""
    program = load()[name]
    tiny = program.inputs(TINY)
    inputs = program.inputs(size)
    if system == "tilewise":
        with tw.config(eager_bytes=0):
            evaluated(program.source(tw, *tilewise_inputs(tiny)))  # compiles: its memory is the compiler's
        inputs = tilewise_inputs(inputs)
        pool.trim()
        before = high_water(start_over=True)
        result = evaluated(program.source(tw, *inputs))
    else:
        program.source(np, *tiny)
        before = high_water(start_over=True)
        result = program.source(np, *inputs)
    after = high_water()
    del result
    return (after - before) / 1024
