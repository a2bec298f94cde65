"""One program under all systems, in a process of its own: `python -m benchmarks.loops.row NAME SIZE`. Out: JSON.

The folder of compiled code (`TILEWISE_CACHE_DIR`) is expected to be empty, so the first call of `tw.jit` compiles. Each
system has compiled something small before its first call is timed, so that loading LLVM does not count.
"""

from benchmarks.kernels.threads import two_threads

two_threads()

import argparse  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

import tilewise as tw  # noqa: E402
from benchmarks.kernels.threads import THREADS  # noqa: E402
from benchmarks.kernels.timing import REST_SECONDS  # noqa: E402
from benchmarks.loops.registry import FAMILIES, PROGRAMS, Inputs, LoopProgram  # noqa: E402
from benchmarks.loops.rivals import FASTMATH, LOOSE, MAKERS, OURS, Made, copied, left, wrong  # noqa: E402

MARK = "row:"
PYTHON_SECONDS = 0.5  # plain Python is run again until then
LEAST, MOST = 5, 200  # turns


def find(name: str) -> LoopProgram:
    """A program, with only as many families imported as needed."""
    for family in FAMILIES:
        importlib.import_module(f"benchmarks.loops.programs.{family}")
        if name in PROGRAMS:
            return PROGRAMS[name]
    raise SystemExit(f"no program is called {name}")


def small(x):  # type: ignore[no-untyped-def]
    """Compiled before the clock starts."""
    s = 0.0
    for i in range(len(x)):
        s += x[i]
    return s


def timed(made: Made) -> tuple[float, Any]:
    function, args = made
    start = time.perf_counter()
    result = function(*args)
    return time.perf_counter() - start, result


def restored(program: LoopProgram, inputs: Inputs, args: Inputs) -> None:
    for i in program.written:
        args[i][...] = inputs[i]
    if any(isinstance(args[i], tw.ndarray) for i in program.written):
        tw.evaluate(*(args[i] for i in program.written))


def strictly(program: LoopProgram, inputs: Inputs) -> str:
    """Nothing if the program compiles whole, or the first line of the refusal."""
    try:
        tw.jit(program.function, strict=True)(*copied(inputs))
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return ""


def of_python(program: LoopProgram, inputs: Inputs) -> tuple[float, list[Any]]:
    """Plain Python's seconds, and what it leaves."""
    best, began, expected = np.inf, time.perf_counter(), None
    while expected is None or time.perf_counter() - began < PYTHON_SECONDS:
        args = copied(inputs)
        seconds, result = timed((program.function, args))
        best = min(best, seconds)
        expected = left(program, args, result) if expected is None else expected
    return best, expected


def of_c(program: LoopProgram, inputs: Inputs) -> list[Any] | None:
    """What C leaves, if there is a form in C."""
    made = MAKERS["c"](program, inputs)
    return None if made is None else left(program, made[1], timed(made)[1])


def measured(program: LoopProgram, size: str, seconds: float, systems: list[str], judge: str) -> dict[str, Any]:
    """The row of a program."""
    inputs = program.inputs(program.size(size))
    row: dict[str, Any] = {"program": program.name, "family": program.family, "size": size, "first": {}, "problems": {}}
    row["seconds"] = {}
    expected = of_c(program, inputs) if judge == "c" else None
    if expected is None:
        row["seconds"]["python"], expected = of_python(program, inputs)
    calls: dict[str, Made] = {}
    for system in systems:
        try:
            made = MAKERS[system](program, inputs)
            if made is None:
                continue
            row["first"][system], result = timed(made)
            rtol = max(program.rtol, LOOSE) if system in FASTMATH else program.rtol
            bad = wrong(left(program, made[1], result), expected, rtol, strict=system in OURS and judge == "python")
        except Exception as error:
            bad = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
        if system == "tw.jit":
            row["refused"] = strictly(program, inputs)
        if bad:
            row["problems"][system] = bad
        else:
            calls[system] = made
    times = turns(program, inputs, calls, seconds)
    row["seconds"] |= {system: min(found) for system, found in times.items()}
    for system, made in calls.items():  # the last call counts as well
        restored(program, inputs, made[1])
        _, result = timed(made)
        rtol = max(program.rtol, LOOSE) if system in FASTMATH else program.rtol
        if bad := wrong(left(program, made[1], result), expected, rtol, strict=system in OURS and judge == "python"):
            row["problems"][system] = f"in a later call, {bad}"
    return row


def turns(program: LoopProgram, inputs: Inputs, calls: dict[str, Made], seconds: float) -> dict[str, list[float]]:
    """Seconds of each system's calls, in turns. Arguments that were written are restored outside of the clock."""
    times: dict[str, list[float]] = {system: [] for system in calls}
    began = time.perf_counter()
    for turn in range(MOST):
        if turn >= LEAST and time.perf_counter() - began > seconds:
            break
        for system, made in calls.items():
            for _ in range(3):  # the first brings code and data back into the caches
                restored(program, inputs, made[1])
                times[system].append(timed(made)[0])
            time.sleep(REST_SECONDS / 10)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("size")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--systems", default=",".join(MAKERS))
    parser.add_argument("--judge", choices=("python", "c"), default="python")
    options = parser.parse_args()
    program, systems = find(options.name), options.systems.split(",")
    with tw.config(threads=THREADS, fallback="silent"), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if "tw.jit" in systems:
            tw.jit(small)(np.ones(3))
        if any(system.startswith(("numba", "fastmath")) for system in systems):
            importlib.import_module("numba").njit(small)(np.ones(3))
        row = measured(program, options.size, options.seconds, systems, options.judge)
    print(MARK + json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
