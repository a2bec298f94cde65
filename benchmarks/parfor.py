"""Parallel loops beside the plain loop, joblib written by hand, and Numba's prange.

    python -m benchmarks.parfor [--rounds 3] [--scale 1.0] [--only pearson,grid] [--ray 2,4] [--json FILE]

Each row is a program of `parfor_programs.py`. "plain" is the same source without @tw.parallel (NumPy, one BLAS thread),
"tw" with it. Systems take turns in one process; times are the least of all rounds (fewer for what takes
long), after one call of each that is not counted. Ratios above 1: tw is faster. "work" is the processor time of
all of tw's threads and processes over the plain loop's: it says what a busy machine hides. "limit" is what the machine
itself allows: the plain loop's time over that of two copies of it with half of the iterations each, in processes that
were started before; "of it" is the part of that which tw reaches. Results are compared with the plain loop's.
`--ray` runs the same loops on workers of Ray beside the plain ones instead.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import tilewise as tw
from benchmarks import parfor_programs
from benchmarks.parfor_programs import PROGRAMS, Program, how
from tilewise.engine import ray_tasks
from tilewise.parfor.blas_threads import blas_threads

LONG = 10.0  # seconds of a system: no more rounds than fit, but one at least
NAMES = (("", 28), ("tw s", 8), ("plain/tw", 10), ("limit", 7), ("of it", 7), ("joblib/tw", 11), ("prange/tw", 11))
HEADS = "".join(name.rjust(width) for name, width in (*NAMES, ("work", 7))) + "  right  body"
PROCESSES = 2  # of the limit


@dataclass
class Measured:
    """Seconds of each system, processor time of plain and tw, and how tw ran it."""

    seconds: dict[str, float] = field(default_factory=dict)
    work: dict[str, float] = field(default_factory=dict)
    right: bool = True
    ways: dict[str, str] = field(default_factory=dict)


def _work() -> float:
    """Processor seconds of this process and of its children that have ended."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def _plain(program: Program) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with blas_threads(1):
            return program.loop(*args)

    return run


def _half(program: Program, inputs: tuple[Any, ...], place: int, line: Any) -> None:
    """A process with some iterations of the plain loop, as often as it is asked."""

    def parfor(over: Any, **options: Any) -> Any:
        return over[place::PROCESSES] if options else over  # loops inside have no options

    parfor_programs.tw = SimpleNamespace(parfor=parfor)  # type: ignore[assignment]
    run = _plain(program)
    while line.recv():
        run(*inputs)
        line.send(True)


@contextmanager
def _limit(program: Program, inputs: tuple[Any, ...]) -> Iterator[Callable[..., Any]]:
    """The plain loop by processes that are there already; its results stay with them."""
    context = multiprocessing.get_context("fork")
    lines: list[Any] = []
    processes: list[Any] = []
    for place in range(PROCESSES):
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=_half, args=(program, inputs, place, theirs), daemon=True))
        processes[-1].start()
        lines.append(ours)

    def run(*_: Any) -> None:
        for line in lines:
            line.send(True)
        for line in lines:
            line.recv()

    try:
        yield run
    finally:
        for line, process in zip(lines, processes, strict=True):
            line.send(False)
            process.join()


def _tw(program: Program, name: str, mode: str | None, workers: int | None, out: Measured) -> Callable[..., Any]:
    parallel = tw.parallel(program.loop)

    def run(*args: Any) -> Any:
        how.mode, how.workers = mode, workers
        try:
            return parallel(*args)
        finally:
            how.mode = how.workers = None
            if parallel.report:
                out.ways[name] = f"{parallel.report[0].body}, {parallel.report[0].mode}"

    return run


def measured(program: Program, scale: float, rounds: int, ray: list[int]) -> Measured:
    """Seconds of all systems, which take turns."""
    inputs = program.inputs(scale)
    if ray or program.prange is not None:  # their plain loops are Python's
        return _measured(program, inputs, rounds, ray, {})
    with _limit(program, inputs) as limit:
        return _measured(program, inputs, rounds, ray, {"limit": limit})


def _measured(
    program: Program, inputs: tuple[Any, ...], rounds: int, ray: list[int], more: dict[str, Callable[..., Any]]
) -> Measured:
    out = Measured()
    systems: dict[str, Callable[..., Any]] = {"plain": _plain(program)}
    if ray:
        systems |= {f"tw on {k}": _tw(program, f"tw on {k}", "cluster", k, out) for k in ray}
    else:
        for mode in program.modes:
            name = f"tw {mode}" if mode else "tw"
            systems[name] = _tw(program, name, mode, None, out)
        systems |= more
        systems["joblib"] = program.joblib
        if program.prange is not None:
            systems["prange"] = program.prange
    expected = None
    turn = 0
    while turn <= rounds:
        for name, run in systems.items():
            if (not turn and name == "plain") or turn * out.seconds.get(name, 0) > LONG:
                continue
            begin, before = time.perf_counter(), _work()
            found = run(*inputs)
            seconds, work = time.perf_counter() - begin, _work() - before
            if turn:
                out.seconds[name] = min(seconds, out.seconds.get(name, np.inf))
                out.work[name] = min(work, out.work.get(name, np.inf))
            if name == "plain":
                expected = found
            elif name != "limit" and expected is not None and (name != "joblib" or program.same_draws):
                out.right = out.right and np.allclose(found, expected, rtol=1e-9, atol=1e-9)
        turn += 1
    return out


def _rows(name: str, m: Measured) -> list[str]:
    """Lines of the table: one per way in which tw ran."""
    lines = []
    for own in (s for s in m.seconds if s.startswith("tw")):
        took = m.seconds[own]
        ratios = [f"{m.seconds[s] / took:.2f}" if s in m.seconds else "" for s in ("plain", "joblib", "prange")]
        work = "" if " on " in own else f"{m.work[own] / m.work['plain']:.2f}"
        right, label = "yes" if m.right else "NO", name + own.removeprefix("tw").replace(" ", ", ", 1)
        limit = m.seconds.get("limit")
        bounds = ("", "") if limit is None else (f"{m.seconds['plain'] / limit:.2f}", f"{limit / took:.2f}")
        columns = f"{took:8.3f}{ratios[0]:>10}{bounds[0]:>7}{bounds[1]:>7}{ratios[1]:>11}{ratios[2]:>11}{work:>7}"
        lines.append(f"{label:28}{columns}  {right:6} {m.ways.get(own, '')}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--ray", default="", help="numbers of workers, instead of this machine's threads and processes")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    ray = [int(k) for k in options.ray.split(",") if k]
    found = {}
    print(HEADS, flush=True)
    for name in (n for n in PROGRAMS if any(part in n for part in options.only.split(","))):
        m = measured(PROGRAMS[name], options.scale, options.rounds, ray)
        print("\n".join(_rows(name, m)), flush=True)
        found[name] = {"seconds": m.seconds, "work": m.work, "right": m.right, "ways": m.ways}
    if ray:
        ray_tasks.close()
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
