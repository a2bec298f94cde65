"""All cores for one launch. In: a function of a part number, and how many parts. Out: when all parts are done.

The caller works too; helper threads sleep on locks between launches (main plus one helper by locks costs 17 us, a
thread pool 38). Parts are handed out one by one. While one launch has the helpers, another runs on its caller alone.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

COPY_PART_BYTES = 1 << 20  # below this a copy is not worth a second thread

Work = Callable[[int], object]


class _Job:
    """One launch: the parts still to hand out, and what went wrong."""

    def __init__(self, work: Work, parts: int) -> None:
        self.work = work
        self.parts = parts
        self.error: BaseException | None = None
        self._next = itertools.count().__next__  # one bytecode under the GIL: no two threads get the same number

    def run(self) -> None:
        """Take parts until there are none."""
        while self.error is None and (part := self._next()) < self.parts:
            self.work(part)

    def cancel(self, error: BaseException) -> None:
        """Hand out nothing more."""
        self.error = self.error or error


class _Helper:
    """A thread that waits for a job, runs it, says so, and waits again."""

    def __init__(self) -> None:
        self._wake, self._done = threading.Lock(), threading.Lock()
        self._wake.acquire()
        self._done.acquire()
        self._job: _Job | None = None
        threading.Thread(target=self._loop, name="tilewise-helper", daemon=True).start()

    def start(self, job: _Job) -> None:
        self._job = job
        self._wake.release()

    def stop(self) -> None:
        """End the thread; it must be idle."""
        self._job = None
        self._wake.release()

    def wait(self) -> None:
        self._done.acquire()

    def _loop(self) -> None:
        while True:
            self._wake.acquire()
            job = self._job
            if job is None:
                return
            try:
                job.run()
            except BaseException as error:  # noqa: BLE001 - the launcher raises it
                job.cancel(error)
            self._job = job = None
            self._done.release()


class _Team:
    """The helpers of this process."""

    def __init__(self) -> None:
        self.count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.forget()

    def forget(self) -> None:
        """Start without threads (also after a fork, where they are gone)."""
        self.helpers: list[_Helper] = []
        self.busy = threading.Lock()

    def resize(self) -> None:
        """Have one helper less than threads; the caller holds `busy`."""
        while len(self.helpers) < self.count - 1:
            self.helpers.append(_Helper())
        while len(self.helpers) > self.count - 1:
            self.helpers.pop().stop()

    def run(self, work: Work, parts: int) -> None:
        job = _Job(work, parts)
        if parts < 2 or self.count < 2 or not self.busy.acquire(blocking=False):
            job.run()
            return
        started: list[_Helper] = []
        try:
            self.resize()
            for helper in self.helpers[: parts - 1]:
                started.append(helper)
                helper.start(job)
            job.run()
        except BaseException as error:
            job.cancel(error)
            raise
        finally:
            self._finish(started)
        if job.error is not None:
            raise job.error

    def _finish(self, started: list[_Helper]) -> None:
        """Wait for every helper, however often the user interrupts: they write into live memory."""
        interrupt: BaseException | None = None
        while started:
            try:
                started[-1].wait()
                started.pop()
            except KeyboardInterrupt as error:
                interrupt = error
        self.busy.release()
        if interrupt is not None:
            raise interrupt


_team = _Team()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_team.forget)


def set_threads(n: int) -> None:
    """Use n threads (the caller included) from the next launch on."""
    assert n >= 1, f"threads must be at least 1, got {n}"
    _team.count = n


def get_threads() -> int:
    """How many threads a launch may use."""
    return _team.count


def run(work: Work, parts: int) -> None:
    """work(0) … work(parts - 1), on all threads; the first exception is raised here, after all have stopped."""
    _team.run(work, parts)


def parallel_for(fn: Callable[[int, int], object], ranges: Sequence[tuple[int, int]]) -> None:
    """fn(start, stop) for every range, on all threads (for NumPy work on tiles, which releases the GIL)."""
    run(lambda i: fn(*ranges[i]), len(ranges))


def parallel_copy(dst: np.ndarray[Any, Any], src: np.ndarray[Any, Any]) -> None:
    """dst[...] = src by all threads, cut along the longest axis of dst."""
    parts = min(_team.count, dst.nbytes // COPY_PART_BYTES)
    if parts < 2:
        np.copyto(dst, src)
        return
    src = np.broadcast_to(src, dst.shape)
    # Cut where elements are farthest apart, so that threads write separate memory.
    axis = max((d for d in range(dst.ndim) if dst.shape[d] >= parts), key=lambda d: abs(dst.strides[d]), default=-1)
    if axis < 0:
        np.copyto(dst, src)
        return
    d, s, n = dst.swapaxes(0, axis), src.swapaxes(0, axis), dst.shape[axis]
    ranges = [(n * i // parts, n * (i + 1) // parts) for i in range(parts)]
    parallel_for(lambda a, b: np.copyto(d[a:b], s[a:b]), ranges)
