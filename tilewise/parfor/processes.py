"""A loop on processes of this machine. In: a job. Out: accumulated values; results are merged here when all have ended.

Workers are forked, so that they have the inputs without a copy, and the body and its functions without being sent.
They pull tasks from one queue, and send what they changed (merge.py) when there is none left. If a worker is lost, its
tasks are run again by a new one, from the state before the loop. Nothing is merged if an iteration fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

from tilewise.errors import ParforError, message
from tilewise.parfor.blas_threads import blas_threads
from tilewise.parfor.identity import Objects, outer_objects, packed, unpacked
from tilewise.parfor.job import Cancelled, Failure, Job, inside, iteration_of
from tilewise.parfor.merge import Changes, all_zero, apply, changes
from tilewise.parfor.reduce import combine, start_of

LOOK_SECONDS = 0.2
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl
ROUNDS = 3  # of workers, before lost ones are an error


@dataclass
class Report:
    """What a worker sends at its end."""

    parts: dict[int, dict[str, Any]] = field(default_factory=dict)  # accumulated names, by task
    sums: dict[int, list[Any]] = field(default_factory=dict)  # accumulated arrays, by task
    entries: dict[int, list[dict[Any, Any]]] = field(default_factory=dict)  # new entries of dicts, by task
    arrays: list[Changes] = field(default_factory=list)
    lists: list[dict[int, Any]] = field(default_factory=list)
    attributes: list[dict[str, Any]] = field(default_factory=list)
    failure: Failure | None = None


def run_processes(job: Job) -> dict[str, Any]:
    """Run a loop on processes; accumulated names."""
    waiting = list(range(len(job.tasks)))
    reports: list[Report] = []
    for _ in range(ROUNDS):
        reports += _round(job, waiting)
        failures = [r.failure for r in reports if r.failure is not None]
        if failures:
            raise min(failures, key=lambda f: f.iteration).error
        done = {number for r in reports for number in r.parts}
        waiting = [number for number in waiting if number not in done]
        if not waiting:
            return _merge(job, reports)
    raise ParforError(
        message(
            f"workers of the parfor at {job.where} were lost {ROUNDS} times",
            cure="Use fewer workers if memory is short, or look whether the body ends its process",
        )
    )


def _round(job: Job, waiting: Sequence[int]) -> list[Report]:
    """Run tasks on as many workers as there are; the reports of those that came to their end."""
    context = multiprocessing.get_context("fork")
    outer = outer_objects(job)
    counter, stop_at = context.Value("q", 0), context.Value("d", math.inf)
    lines: list[connection.Connection] = []
    workers = []
    reports: list[Report] = []
    try:
        with _interrupts_later():
            for _ in range(min(job.workers, len(waiting))):
                receiver, sender = context.Pipe(duplex=False)
                worker = context.Process(
                    target=_work, args=(job, waiting, counter, stop_at, sender, lines, os.getpid(), outer), daemon=True
                )
                with warnings.catch_warnings():
                    warnings.simplefilter(
                        "ignore", DeprecationWarning
                    )  # of forks beside threads: ours are prepared for it
                    worker.start()
                sender.close()
                lines.append(receiver)
                workers.append(worker)
        open_lines = list(lines)
        while open_lines:
            for line in connection.wait(open_lines, LOOK_SECONDS):
                assert isinstance(line, connection.Connection)
                with contextlib.suppress(EOFError):
                    reports.append(_received(line.recv_bytes(), outer))
                open_lines.remove(line)
    finally:
        for worker in workers:
            if worker.is_alive() and len(reports) < len(workers):
                worker.kill()
        for worker in workers:
            worker.join()
            worker.close()
        for line in lines:
            line.close()
    return reports


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Inside, Ctrl-C waits: a worker that was forked but is not known yet would be left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        if pressed and callable(before):
            before(pressed[0], None)


def _received(data: bytes, outer: Objects) -> Report:
    report = unpacked(data, outer)
    assert isinstance(report, Report)
    return report


def _end_with(parent: int) -> None:
    """End this process when its parent is gone; where the system cannot do that, at the next task."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _work(
    job: Job,
    waiting: Sequence[int],
    counter: Any,
    stop_at: Any,
    sender: Any,
    others: Sequence[Any],
    parent: int,
    outer: Objects,
) -> None:
    """A worker: tasks until there are none, then one report."""
    inside.worker = True
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    for line in others:
        line.close()
    report = Report()
    before = [None if all_zero(a) else a.copy(order="K") for a in job.results.arrays]
    held = [list(x) for x in job.results.lists]
    attributes = [dict(vars(x)) for x in job.results.instances]
    sums = [(array, op, array.copy(order="K")) for array, op in job.summed]
    with blas_threads(1):
        while os.getppid() == parent:
            with counter.get_lock():
                place = counter.value
                counter.value += 1
            if place >= len(waiting) or job.tasks[waiting[place]].start > stop_at.value:
                break
            if not _task(job, waiting[place], report, sums, stop_at):
                break
    report.arrays = [changes(a, old) for a, old in zip(job.results.arrays, before, strict=True)]
    report.lists = [
        {n: x for n, (x, y) in enumerate(zip(new, old, strict=True)) if x is not y}
        for new, old in zip(job.results.lists, held, strict=True)
    ]
    report.attributes = [
        {name: x for name, x in vars(new).items() if x is not old.get(name, attributes)}
        for new, old in zip(job.results.instances, attributes, strict=True)
    ]
    sender.send_bytes(_packed(report, job, outer))
    sender.close()


def _task(job: Job, number: int, report: Report, sums: Sequence[Any], stop_at: Any) -> bool:
    """Run one task; whether to go on."""
    for array, op, old in sums:
        array[...] = start_of(op, old)
    tables = [dict(x) for x in job.results.dicts]
    starts = job.starts()
    try:
        out = job.run_task(job.tasks[number], starts, lambda: stop_at.value)
    except Cancelled:
        return False
    except BaseException as error:
        failure = Failure(iteration_of(error), error)
        with stop_at.get_lock():
            stop_at.value = min(stop_at.value, failure.iteration)
        report.failure = failure
        return False
    report.parts[number] = {name: out[name] for name in (*starts, *job.kept) if name in out}
    report.sums[number] = [array.copy(order="K") for array, _, _ in sums]
    report.entries[number] = [
        {k: v for k, v in new.items() if k not in old or v is not old[k]}
        for new, old in zip(job.results.dicts, tables, strict=True)
    ]
    return True


def _packed(report: Report, job: Job, outer: Objects) -> bytes:
    """A report as bytes; one that cannot be sent becomes an error that says so."""
    try:
        data = packed(report, outer)
        if report.failure is not None:
            unpacked(data, outer)  # some exceptions cannot be made again
        return data
    except Exception as error:
        if report.failure is not None:
            cause = report.failure.error
            notes = "; ".join(getattr(cause, "__notes__", ()))
            told: Exception = RuntimeError(f"{type(cause).__name__}: {cause} ({notes})")
            return pickle.dumps(Report(failure=Failure(report.failure.iteration, told)))
        text = message(
            f"a result of the parfor at {job.where} cannot be sent between processes ({error})",
            cure='Use mode="threads", or results that can be pickled',
        )
        return pickle.dumps(Report(failure=Failure(0, ParforError(text))))


def _merge(job: Job, reports: Sequence[Report]) -> dict[str, Any]:
    """Write what workers changed, in the order of tasks where that matters."""
    for report in reports:
        for array, found in zip(job.results.arrays, report.arrays, strict=True):
            apply(array, found)
        for cells, new in zip(job.results.lists, report.lists, strict=True):
            for place, value in new.items():
                cells[place] = value
        for instance, named in zip(job.results.instances, report.attributes, strict=True):
            vars(instance).update(named)
    values = {name: job.names[name] for name in job.reductions}
    by_task = {number: report for report in reports for number in report.parts}
    for number in range(len(job.tasks)):
        report = by_task[number]
        for name, op in job.reductions.items():
            values[name] = combine(op, values[name], report.parts[number][name])
        for (array, op), part in zip(job.summed, report.sums[number], strict=True):
            array[...] = combine(op, array, part)
        for table, new in zip(job.results.dicts, report.entries[number], strict=True):
            table.update(new)
        values |= {name: x for name, x in report.parts[number].items() if name in job.kept}
    return values


def workers_can_fork() -> bool:
    """Whether this system has processes that start with what their parent has."""
    return "fork" in multiprocessing.get_all_start_methods()
