"""A loop on threads of this process. In: a job. Out: accumulated values; arrays and lists are written in place.

Iterations are independent, so threads write to the results themselves; a copy of what was before is kept until all
have ended, and put back if one fails.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewise.parfor.job import Cancelled, Failure, Job, Results, inside, iteration_of, unseen
from tilewise.parfor.partition import partition
from tilewise.parfor.reductions.combine import combine, combine_all, start_of
from tilewise.parfor.staging import StagingFolder

LOOK_SECONDS = 0.05  # between looks whether Ctrl-C was pressed
LEAVE_SECONDS = 1.5  # that threads have to end after Ctrl-C


class Interrupted(BaseException):
    """Raised in threads when the program is interrupted."""


class _Thread(threading.Thread):
    """A thread that says when it is over: one whose `join` was interrupted passes for ended."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.work, self.over = work, threading.Event()

    def run(self) -> None:
        """Work."""
        try:
            self.work()
        finally:
            self.over.set()


class _Run:
    """The threads of one loop, which pull tasks from one queue."""

    def __init__(self, job: Job, more: Callable[[], None] | None = None) -> None:
        self.job = job
        self.more = more  # somebody else who counts
        self.next_task = itertools.count().__next__
        self.tick, self.done = itertools.count(1).__next__, 0
        job.count = self.count
        self.stop_at: float = math.inf
        self.failures: list[Failure] = []
        self.parts: dict[int, dict[str, Any]] = {}
        self.lock = threading.Lock()
        # Arrays that are accumulated, by the one name under which the body has each.
        self.summed = {name: op for array, op in job.summed for name, value in job.names.items() if value is array}

    def count(self) -> None:
        """An iteration is done."""
        self.done = self.tick()
        if self.more is not None:
            self.more()

    def work(self) -> None:
        """Run tasks until there are none."""
        inside.worker, inside.left = True, self.job.left
        try:
            while (number := self.next_task()) < len(self.job.tasks):
                task = self.job.tasks[number]
                if task.start > self.stop_at:
                    return
                self.one(number, task)
        except (Cancelled, Interrupted):
            pass

    def one(self, number: int, task: range) -> None:
        """Run one task."""
        starts = self.job.starts() | {n: start_of(op, self.job.names[n]) for n, op in self.summed.items()}
        try:
            out = self.job.run_task(task, starts, lambda: self.stop_at)
        except (Cancelled, Interrupted):
            raise
        except BaseException as error:
            with self.lock:
                self.failures.append(Failure(iteration_of(error), error))
                self.stop_at = min(self.stop_at, self.failures[-1].iteration)
            return
        self.parts[number] = {name: out[name] for name in (*starts, *self.job.kept) if name in out}


def run_threads(job: Job) -> dict[str, Any]:
    """Run a loop on threads; accumulated names. The copy to go back to is in a file if results are merged by file."""
    if job.merge != "file":
        return _run_threads(job, None)
    with StagingFolder() as staging:
        return _run_threads(job, staging.folder)


def run_shared(job: Job, task: range, starts: dict[str, Any]) -> dict[str, Any]:
    """Run one task, its iterations shared by threads; what accumulated names are then."""
    tasks = [range(t.start + task.start, t.stop + task.start) for t in partition(len(task), job.inner, "static")]
    own = replace(job, tasks=tasks, workers=job.inner, inner=1, progress=unseen, names={**job.names, **starts})
    own.results = Results()  # written in place all the same; nobody goes back to what was before
    return _run_threads(own, None, own.count)


def _run_threads(job: Job, folder: str | None, more: Callable[[], None] | None = None) -> dict[str, Any]:
    backup = job.results.backup(folder)
    run = _Run(job, more)
    threads = [_Thread(run.work) for _ in range(min(job.workers, len(job.tasks)))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while not thread.over.wait(LOOK_SECONDS):
                job.progress(run.done)
        job.progress(run.done)
    except BaseException:
        run.stop_at = -1
        _interrupt(threads)
        job.results.restore(backup)
        raise
    if run.failures:
        job.results.restore(backup)
        raise min(run.failures, key=lambda f: f.iteration).error
    values = {name: job.names[name] for name in job.reductions}
    for number in range(len(job.tasks)):
        part = run.parts.pop(number)
        combine_all(job.reductions, values, part)
        for name, op in run.summed.items():
            job.names[name][...] = combine(op, job.names[name], part[name])
        values |= {name: part[name] for name in job.kept if name in part}
    return values


def _interrupt(threads: list[_Thread]) -> None:
    """End threads at their next instruction; those in long calls outside of Python are left behind."""
    for thread in threads:
        if not thread.over.is_set() and thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Interrupted))
    end = time.monotonic() + LEAVE_SECONDS
    for thread in (t for t in threads if t.ident is not None):
        thread.over.wait(max(0.0, end - time.monotonic()))
