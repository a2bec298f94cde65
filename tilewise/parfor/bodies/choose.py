"""How the body of a loop runs: by the interpreter, as machine code, or as array expressions.

In: a loop that is to run. Out: `Way`. What is decided depends on the loop and its values only, never on measured time:
the same loop on the same data gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewise.config import current
from tilewise.parfor.bodies.arrays.axes import NotArrays
from tilewise.parfor.bodies.arrays.trace import Expression, expression
from tilewise.parfor.bodies.arrays.traced import ELEMENT_SECONDS
from tilewise.parfor.bodies.effort import seconds_of
from tilewise.parfor.bodies.native import LARGE_TASKS_PER_WORKER, NativeJob, NotNative, native_job
from tilewise.parfor.job import Job
from tilewise.parfor.options import Options
from tilewise.parfor.partition import partition
from tilewise.parfor.rewrite import LoopSource
from tilewise.parfor.walk.loops import Statements

WORTH_SECONDS = 0.2  # that the loop would take: about what compiling a body takes
OPERATIONS = 4  # that an element of an input goes through, about
FASTER = 1.0  # than the loop on all workers, that array expressions have to be


@dataclass(frozen=True)
class Way:
    """How a body runs, and why not another way."""

    body: str
    why: str = ""
    native: NativeJob | None = None
    arrays: Expression | None = None
    partition: str = ""
    no_arrays: str | None = None  # why it is no array expression


def chosen(
    source: LoopSource,
    job: Job,
    options: Options,
    names: Mapping[str, Any],
    walk: Statements,
    no_arrays: str | None = None,
    gain: float = 0.0,
) -> Way:
    """How the body of a loop runs. `no_arrays`: why the same loop was no array expression the last time.

    gain: seconds that machine code saves beside the interpreter's: of NumPy's functions, and that threads wait for the
    interpreter's lock.
    """
    if options.mode == "processes":
        return Way("python", 'mode="processes"')
    count = len(job.elements)
    known = {**names, job.target: job.elements[count // 2]}
    overhead = count * seconds_of(source.node.body, known)
    seconds = overhead + OPERATIONS * ELEMENT_SECONDS * _elements(walk)
    if seconds < WORTH_SECONDS:
        return Way("python", f"about {seconds:.1g} s, less than compiling takes")
    free = options.partition is None and options.tasks is None and options.task_size is None
    why = []
    if options.mode is None and free and current().engine != "numpy":
        try:
            if no_arrays is not None:
                raise NotArrays(no_arrays)
            found = expression(source, job, dict(names))
            if found.seconds * FASTER < found.plain_seconds / job.workers:
                return Way("arrays", arrays=found)
            why.append("no faster as array expressions")
        except NotArrays as error:
            no_arrays = str(error)
            why.append(f"no array expression: {error}")
    if overhead + gain < WORTH_SECONDS:
        return Way("python", "; ".join([*why, "not native: most of the time is NumPy's"]), no_arrays=no_arrays)
    try:
        native = native_job(source, job)
    except NotNative as error:
        return Way("python", "; ".join([*why, f"not native: {error}"]), no_arrays=no_arrays)
    if not free:
        return Way("native", "; ".join(why), native, no_arrays=no_arrays)
    most = -(-count // (job.workers * LARGE_TASKS_PER_WORKER))
    native = replace(native, tasks=partition(count, job.workers, "factoring_cmax", most))
    return Way("native", "; ".join(why), native, partition="factoring_cmax", no_arrays=no_arrays)


def _elements(walk: Statements) -> float:
    """How many elements of arrays from outside the loop touches."""
    extents = ([index.last + 1 for index in touch.access.loops] for touch in walk.touches)
    return float(sum(math.prod(max(0, n) for n in found) for found in extents if all(map(math.isfinite, found))))
