"""What a worker changed, and how it comes into the results. In: a job, reports of workers. Out: results as of the loop.

`TaskRunner` runs tasks in a process that has its own copy of everything and notes what they change. `merge` writes
what all workers changed; nothing is written before all tasks are there.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tilewise.errors import ParforError, message
from tilewise.machine import machine
from tilewise.parfor.job import Failure, Job, iteration_of
from tilewise.parfor.merge import Changes, all_zero, apply, changes
from tilewise.parfor.reductions.cells import SummedCells, merge_cells
from tilewise.parfor.reductions.combine import combine, combine_all, start_of
from tilewise.parfor.staging import StagingFolder
from tilewise.parfor.threads import run_shared

MERGE_THREADS_BYTES = 4 << 20  # of changes: fewer are written sooner than threads are started


@dataclass
class Report:
    """What a worker sends at its end."""

    parts: dict[int, dict[str, Any]] = field(default_factory=dict)  # accumulated names, by task
    sums: dict[int, list[Any]] = field(default_factory=dict)  # accumulated arrays, by task
    entries: dict[int, list[dict[Any, Any]]] = field(default_factory=dict)  # new entries of dicts, by task
    cells: dict[int, list[dict[Any, Any]]] = field(default_factory=dict)  # accumulated cells, by task
    arrays: list[Changes | None] = field(default_factory=list)  # None: staged in a file
    lists: list[dict[int | None, Any]] = field(default_factory=list)
    attributes: list[dict[str, Any]] = field(default_factory=list)
    failure: Failure | None = None
    name: str = ""  # of what it staged


class TaskRunner:
    """Runs tasks one after the other, and knows what was there before."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.report = Report()
        self.before = [None if all_zero(a) else a.copy(order="K") for a in job.results.arrays]
        self.held = [list(x) for x in job.results.lists]
        self.attributes = [dict(vars(x)) for x in job.results.instances]
        self.sums = [(array, op, array.copy(order="K")) for array, op in job.summed]
        self.cells = [SummedCells(*given) for given in job.cells]

    def run(self, number: int, stop_at: Callable[[], float]) -> None:
        """Run one task; raises `Cancelled`, or the exception of an iteration."""
        job, report = self.job, self.report
        for array, op, old in self.sums:
            array[...] = start_of(op, old)
        for summed in self.cells:
            summed.begin()
        tables = [dict(x) for x in job.results.dicts]
        starts = job.starts()
        if job.inner > 1 and len(job.tasks[number]) > 1:
            out = run_shared(job, job.tasks[number], starts)
        else:
            out = job.run_task(job.tasks[number], starts, stop_at)
        report.parts[number] = {name: out[name] for name in (*starts, *job.kept) if name in out}
        report.cells[number] = [summed.found() for summed in self.cells]
        report.sums[number] = [array.copy(order="K") for array, _, _ in self.sums]
        report.entries[number] = [
            {k: v for k, v in new.items() if k not in old or v is not old[k]}
            for new, old in zip(job.results.dicts, tables, strict=True)
        ]

    def fail(self, error: BaseException) -> Failure:
        """Note the exception of an iteration."""
        self.report.failure = Failure(iteration_of(error), error)
        return self.report.failure

    def finished(self, staging: StagingFolder | None = None, name: str = "", arrays: bool = True) -> Report:
        """What all tasks so far have changed; arrays in files, where there is a folder for them."""
        report, results = self.report, self.job.results
        if arrays:
            report.name = name
            report.arrays = [
                None if staging is not None and staging.write(name, n, array, old) else changes(array, old)
                for n, (array, old) in enumerate(zip(results.arrays, self.before, strict=True))
            ]
        report.lists = [_list_changes(new, old) for new, old in zip(results.lists, self.held, strict=True)]
        report.attributes = [
            {name: x for name, x in vars(new).items() if x is not old.get(name, self.attributes)}
            for new, old in zip(results.instances, self.attributes, strict=True)
        ]
        return report


def _list_changes(new: list[Any], old: list[Any]) -> dict[int | None, Any]:
    """The cells of a list that are others now; all of it, by the key None, if it has grown or shrunk."""
    if len(new) != len(old):
        return {None: list(new)}
    return {n: x for n, (x, y) in enumerate(zip(new, old, strict=True)) if x is not y}


def packed(
    report: Report,
    where: str,
    dumps: Callable[[Any], bytes] = pickle.dumps,
    loads: Callable[[bytes], Any] = pickle.loads,
) -> bytes:
    """A report as bytes; one that cannot be sent becomes an error that says so."""
    try:
        data = dumps(report)
        if report.failure is not None:
            loads(data)  # some exceptions cannot be made again
        return data
    except Exception as error:
        if report.failure is not None:
            cause = report.failure.error
            notes = "; ".join(getattr(cause, "__notes__", ()))
            told: Exception = RuntimeError(f"{type(cause).__name__}: {cause} ({notes})")
            return dumps(Report(failure=Failure(report.failure.iteration, told)))
        text = message(
            f"a result of the parfor at {where} cannot be sent between processes ({error})",
            cure='Use mode="threads", or results that can be pickled',
        )
        return dumps(Report(failure=Failure(0, ParforError(text))))


def unpacked(data: bytes, loads: Callable[[bytes], Any] = pickle.loads) -> Report:
    """A report from bytes that a worker sent."""
    report = loads(data)
    assert isinstance(report, Report)
    return report


def raise_first(reports: Sequence[Report]) -> None:
    """Raise the exception that the plain loop would have raised, if there is one."""
    failures = [r.failure for r in reports if r.failure is not None]
    if failures:
        raise min(failures, key=lambda f: f.iteration).error


def merge(job: Job, reports: Sequence[Report], staging: StagingFolder | None = None) -> dict[str, Any]:
    """Write what workers changed, in the order of tasks where that matters; accumulated names."""
    _merge_arrays(job, reports)
    if staging is not None:
        staged = [r.name for r in reports if any(found is None for found in r.arrays)]
        for n, array in enumerate(job.results.arrays):
            staging.merge(n, array, staged)
    for report in reports:
        for cells, new in zip(job.results.lists, report.lists, strict=True):
            for place, value in new.items():
                if place is None:
                    cells[:] = value
                else:
                    cells[place] = value
        for instance, named in zip(job.results.instances, report.attributes, strict=True):
            vars(instance).update(named)
    values = {name: job.names[name] for name in job.reductions}
    by_task = {number: report for report in reports for number in report.parts}
    for number in range(len(job.tasks)):
        report = by_task[number]
        combine_all(job.reductions, values, report.parts[number])
        for (array, op), part in zip(job.summed, report.sums[number], strict=False):  # none: added on the cluster
            array[...] = combine(op, array, part)
        merge_cells(job.cells, report.cells[number])
        for table, new in zip(job.results.dicts, report.entries[number], strict=True):
            table.update(new)
        values |= {name: x for name, x in report.parts[number].items() if name in job.kept}
    return values


def _merge_arrays(job: Job, reports: Sequence[Report]) -> None:
    """In memory, on threads where that is worth it: workers never changed the same cell, so no lock is needed."""
    todo = [
        (array, found)
        for report in reports
        for array, found in itertools.zip_longest(job.results.arrays, report.arrays)
        if found is not None
    ]
    cores = min(machine().cores, len(todo))
    plain = all(not array.dtype.hasobject for array, _ in todo)
    large = sum(found.values.nbytes for _, found in todo) >= MERGE_THREADS_BYTES
    if cores > 1 and plain and large and job.checked:
        with ThreadPoolExecutor(cores) as pool:
            for done in [pool.submit(apply, array, found) for array, found in todo]:
                done.result()
    else:
        for array, found in todo:
            apply(array, found)
