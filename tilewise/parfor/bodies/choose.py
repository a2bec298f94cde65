"""How the body of a loop runs: by the interpreter or as machine code. In: a loop that is to run. Out: `Way`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewise.parfor.bodies.effort import seconds_of
from tilewise.parfor.bodies.native import TASKS_PER_WORKER, NativeJob, NotNative, native_job
from tilewise.parfor.job import Job
from tilewise.parfor.partition import partition

WORTH_SECONDS = 0.2  # that the interpreter would take: about what compiling a body takes


@dataclass(frozen=True)
class Way:
    """How a body runs, and why not another way."""

    body: str
    why: str = ""
    native: NativeJob | None = None
    partition: str = ""


def chosen(run: Any, job: Job, mode: str) -> Way:
    """How the body of a loop runs. `mode` is where the interpreter would run it."""
    options = run.options
    if options.mode == "processes":
        return Way("python", 'mode="processes"')
    count = len(job.elements)
    names = {**run.names, job.target: job.elements[count // 2]}
    seconds = count * seconds_of(run.source.node.body, names)
    if seconds < WORTH_SECONDS:
        return Way("python", f"about {seconds:.2g} s, less than compiling takes")
    try:
        native = native_job(run.source, job)
    except NotNative as error:
        return Way("python", f"not native: {error}")
    if options.partition is None and options.tasks is None and options.task_size is None:
        tasks = partition(count, job.workers * TASKS_PER_WORKER, "static")
        return Way("native", "", replace(native, tasks=tasks), "static")
    return Way("native", "", native)
