"""A loop on processes of this machine. In: a job. Out: accumulated values; results are merged here when all have ended.

Workers are forked, so that they have the inputs without a copy, and the body and its functions without being sent.
They pull tasks from one queue, and send what they changed (merge.py) when there is none left. If a worker is lost, its
tasks are run again by a new one, from the state before the loop. Nothing is merged if an iteration fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection
from typing import Any

from tilewise.errors import ParforError, message
from tilewise.interrupts import to_the_end
from tilewise.parfor import identity
from tilewise.parfor.blas_threads import blas_threads, find_libraries
from tilewise.parfor.job import Cancelled, Job, inside
from tilewise.parfor.report import Report, TaskRunner, merge, packed, raise_first, unpacked
from tilewise.parfor.staging import StagingFolder

LOOK_SECONDS = 0.2
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl
ROUNDS = 3  # of workers, before lost ones are an error


def run_processes(job: Job) -> dict[str, Any]:
    """Run a loop on processes; accumulated names."""
    if job.merge != "file":
        return _rounds(job, None)
    with StagingFolder() as staging:
        return _rounds(job, staging)


def _rounds(job: Job, staging: StagingFolder | None) -> dict[str, Any]:
    """Run tasks until all are done; those of lost workers again, by fewer workers: memory may have been short."""
    waiting = list(range(len(job.tasks)))
    reports: list[Report] = []
    for k in range(ROUNDS):
        reports += _round(job, waiting, max(1, job.workers >> k), staging)
        raise_first(reports)
        done = {number for r in reports for number in r.parts}
        waiting = [number for number in waiting if number not in done]
        if not waiting:
            return merge(job, reports, staging)
    raise ParforError(
        message(
            f"workers of the parfor at {job.where} were lost {ROUNDS} times, and nothing was written",
            cure="Use fewer workers or memory= if memory is short, or look whether the body ends its process",
        )
    )


@dataclass
class _Queue:
    """What workers share: which tasks wait, and what was pulled, failed and done."""

    waiting: Sequence[int]
    next_task: Any
    stop_at: Any
    slots: Any  # iterations done, by worker
    parent: int
    outer: identity.Objects


def _round(job: Job, waiting: Sequence[int], most: int, staging: StagingFolder | None) -> list[Report]:
    """Run tasks on workers; the reports of those that came to their end."""
    context = multiprocessing.get_context("fork")
    find_libraries()  # once here, instead of in each worker
    count = min(most, len(waiting))
    slots: Any = context.RawArray("q", count)
    outer = identity.outer_objects(job)
    queue = _Queue(waiting, context.Value("q", 0), context.Value("d", math.inf), slots, os.getpid(), outer)
    before = len(job) - sum(len(job.tasks[number]) for number in waiting)
    lines: list[connection.Connection] = []
    workers = []
    reports: list[Report] = []
    try:
        with to_the_end():  # a worker that was forked but is not known yet would be left behind
            for place in range(count):
                receiver, sender = context.Pipe(duplex=False)
                worker = context.Process(target=_work, args=(job, queue, place, sender, lines, staging), daemon=True)
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
                    reports.append(unpacked(line.recv_bytes(), partial(identity.unpacked, outer=queue.outer)))
                open_lines.remove(line)
            job.progress(before + sum(slots))
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


def _end_with(parent: int) -> None:
    """End this process when its parent is gone; where the system cannot do that, at the next task."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _work(
    job: Job, queue: _Queue, place: int, sender: Any, others: Sequence[Any], staging: StagingFolder | None
) -> None:
    """A worker: tasks until there are none, then one report."""
    inside.worker, inside.left = True, job.left
    _end_with(queue.parent)
    gc.freeze()  # collecting garbage would write to, and so copy, all memory that has Python's objects
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    for line in others:
        line.close()
    runner = TaskRunner(job)
    job.count = _counting(queue.slots, place)
    with blas_threads(job.threads):
        while os.getppid() == queue.parent:
            with queue.next_task.get_lock():
                at = queue.next_task.value
                queue.next_task.value += 1
            if at >= len(queue.waiting) or job.tasks[queue.waiting[at]].start > queue.stop_at.value:
                break
            try:
                runner.run(queue.waiting[at], lambda: float(queue.stop_at.value))
            except Cancelled:
                break
            except BaseException as error:
                failure = runner.fail(error)
                with queue.stop_at.get_lock():
                    queue.stop_at.value = min(queue.stop_at.value, failure.iteration)
                break
    report = runner.finished(staging, f"worker-{os.getpid()}-{time.monotonic_ns()}")
    dumps, loads = (partial(f, outer=queue.outer) for f in (identity.packed, identity.unpacked))
    sender.send_bytes(packed(report, job.where, dumps, loads))
    sender.close()


def _counting(slots: Any, place: int) -> Callable[[], None]:
    """Counts the iterations of one worker, where its parent sees it."""

    def count() -> None:
        slots[place] += 1

    return count


def workers_can_fork() -> bool:
    """Whether this system has processes that start with what their parent has."""
    return "fork" in multiprocessing.get_all_start_methods()
