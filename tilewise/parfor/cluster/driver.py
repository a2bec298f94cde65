"""A loop on a cluster: hands out tasks. In: a job. Out: accumulated values; results are merged when all tasks are done.

The job is packed first, so that what cannot be sent is an error before anything runs. Workers get it once, arrays by
way of memory that a node shares, and pull tasks from one queue. A worker that is lost takes what its tasks have done
with it: these tasks go back to the queue, for workers on which they have never run.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewise.engine import ray_tasks
from tilewise.errors import ParforError, message
from tilewise.parfor.cluster.packing import packed
from tilewise.parfor.cluster.pieces import taken
from tilewise.parfor.cluster.worker import MISSING, Empty, serve
from tilewise.parfor.job import Job, unseen
from tilewise.parfor.merge import block_of
from tilewise.parfor.report import Report, merge, raise_first, unpacked
from tilewise.parfor.staging import StagingFolder

LOOK_SECONDS = 0.2  # between looks whether Ctrl-C was pressed, and how far workers are
LOSSES = 3  # of workers that run the same task, before that is an error
ASK_SECONDS = 0.5  # between questions to workers how far they are
SETTLE_SECONDS = 2.0  # that workers have to stop after a failure, before they are ended
NEAR = 32  # waiting tasks among which one is looked for whose inputs a worker has
BLOCK_BYTES = 4 << 20  # of results that are merged at a time on a worker

_held: dict[Any, set[bytes]] = {}  # parts of inputs that processes are thought to have


@dataclass(eq=False)
class _Worker:
    process: Any
    tasks: set[int] = field(default_factory=set)  # done, or under way
    future: Any = None
    task: int | None = None
    progress: Any = None
    done: int = 0


def run_cluster(job: Job) -> dict[str, Any]:
    """Run a loop on workers of a cluster; accumulated names."""
    sent = packed(job)
    run = _Run(job, sent.data, sent.roots)
    if job.merge != "file":
        return run.values(None)
    with StagingFolder() as staging:
        return run.values(staging)


class _Run:
    """One loop on a cluster."""

    def __init__(self, job: Job, data: bytes, roots: Sequence[Any]) -> None:
        self.job = job
        self.pool = ray_tasks.pool(job.workers)
        self.key = next(self.pool.keys)
        self.waiting = list(range(len(job.tasks)))
        self.lost: dict[int, int] = {}  # how often each task was lost with its worker
        self.stop_at = math.inf
        self.failures: list[Report] = []
        written = {id(a) for a in (*job.results.arrays, *(a for a, _ in job.summed))}
        self.written = frozenset(n for n, root in enumerate(roots) if id(root) in written)
        self.data = self.pool.put(data)
        self.roots = [self.pool.put(Empty.of(root) if n in self.written else root) for n, root in enumerate(roots)]
        self.boxes = [[(p, p.box(task)) for p in job.inputs] for task in job.tasks]
        self.pieces: dict[bytes, Any] = {}  # in Ray's memory
        self.keys: dict[tuple[int, int], bytes] = {}
        self.workers: list[_Worker] = []
        self.looked = time.monotonic()

    def values(self, staging: StagingFolder | None) -> dict[str, Any]:
        """Run all tasks, merge, and end."""
        try:
            self._start()
            self._tasks()
            self._settle()
            raise_first(self.failures)
            return self._merged(staging)
        except BaseException:
            self._abandon()
            raise

    # -- workers --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """As many workers as there should be, in the place of lost ones as well."""
        busy = [w.process for w in self.workers]
        count = min(self.job.workers, len(self.job.tasks))
        for process in self.pool.grow(count, self.job.threads):
            if process in busy:
                continue
            worker = _Worker(process)
            name = f"worker-{self.key}-{len(self.lost)}-{len(self.workers)}"
            worker.future = process.make.remote(self.key, _served, (self.written, name), [self.data, *self.roots])
            self.workers.append(worker)

    def _settle(self) -> None:
        """After a failure: workers that were told to stop may end their iteration; new ones would take seconds."""
        end = time.monotonic() + SETTLE_SECONDS
        while self.failures and time.monotonic() < end:
            futures = {w.future: w for w in self.workers if w.future is not None}
            if not futures:
                return
            for future in self.pool.wait(list(futures), LOOK_SECONDS):
                worker = futures[future]
                worker.future = worker.task = None
                try:
                    self.pool.result(future)
                except ray_tasks.LOST:
                    self._end(worker)
                    self.workers.remove(worker)

    def _abandon(self) -> None:
        """End workers that are still at it: their calls cannot be stopped in any other way."""
        for worker in self.workers:
            if worker.future is not None:
                self._end(worker)

    def _end(self, worker: _Worker) -> None:
        _held.pop(worker.process, None)
        self.pool.end(worker.process)

    def _lose(self, worker: _Worker, error: BaseException) -> None:
        """A worker is gone, and with it what it had done."""
        self._end(worker)
        self.workers.remove(worker)
        for task in worker.tasks:
            self.lost[task] = self.lost.get(task, 0) + 1
        self.waiting = sorted({*self.waiting, *worker.tasks})
        self.lost.setdefault(-1, 0)
        self.lost[-1] += 1
        most = max((self.lost.get(t, 0) for t in ([worker.task] if worker.task is not None else [-1])), default=0)
        if most >= LOSSES or self.lost[-1] >= LOSSES + 2 * self.job.workers:
            text = str(error).strip().split("\n")[0][:200]
            raise ParforError(
                message(
                    f"workers of the parfor at {self.job.where} were lost {most} times, and nothing was written",
                    got=text,
                    cure="Use fewer workers or memory= if memory is short, or look whether the body ends its process",
                )
            ) from error
        self._start()

    # -- tasks ----------------------------------------------------------------------------------------------------

    def _tasks(self) -> None:
        """Hand out tasks until all are done, or one has failed and no earlier one can."""
        while True:
            for worker in self.workers:
                if worker.future is None:
                    self._hand_out(worker)
            futures = {w.future: w for w in self.workers if w.future is not None and self._matters(w)}
            if not futures:
                return
            for future in self.pool.wait(list(futures), LOOK_SECONDS):
                self._received(futures[future])
            self._look()

    def _matters(self, worker: _Worker) -> bool:
        """Whether what a worker does comes before the first failure."""
        return worker.task is None or self.job.tasks[worker.task].start <= self.stop_at

    def _hand_out(self, worker: _Worker) -> None:
        """The next task for a worker: one of whose inputs it has most, of those that are next."""
        self.waiting = [t for t in self.waiting if self.job.tasks[t].start <= self.stop_at]
        if not self.waiting:
            return
        number = (
            max(self.waiting[:NEAR], key=lambda t: (self._near(worker, t), -t)) if self.job.inputs else self.waiting[0]
        )
        self.waiting.remove(number)
        held = _held.setdefault(worker.process, set())
        described, refs = [], []
        for n, (pattern, box) in enumerate(self.boxes[number]):
            key = self._key(number, n)
            described.append((pattern.name, key, box, pattern.root.shape))
        if any(key not in held for _, key, _, _ in described):
            refs = [self._piece(number, n) for n in range(len(described))]
        held.update(key for _, key, _, _ in described)
        worker.task = number
        worker.tasks.add(number)
        worker.future = worker.process.call.remote(self.key, "run", (number, described), refs)

    def _near(self, worker: _Worker, number: int) -> int:
        """Bytes of the inputs of a task that a worker has."""
        held = _held.get(worker.process, ())
        return sum(
            pattern.bytes(self.job.tasks[number])
            for n, (pattern, _) in enumerate(self.boxes[number])
            if held and self._key(number, n) in held
        )

    def _key(self, number: int, n: int) -> bytes:
        """The name of a part by its content: what was sent before is not sent again, if it has not changed."""
        if (number, n) not in self.keys:
            pattern, box = self.boxes[number][n]
            cells = pattern.root[tuple(slice(r.start, r.stop) for r in box)]
            head = repr((cells.shape, cells.dtype.str, pattern.root.shape, pattern.root.strides, box)).encode()
            inward = cells.transpose(sorted(range(cells.ndim), key=lambda d: -abs(cells.strides[d])))  # as memory is
            content = hashlib.sha256(np.ascontiguousarray(inward).view(np.uint8).data).digest()  # the quickest
            self.keys[number, n] = content + head
        return self.keys[number, n]

    def _piece(self, number: int, n: int) -> Any:
        """A part in Ray's memory."""
        key = self._key(number, n)
        if key not in self.pieces:
            pattern, box = self.boxes[number][n]
            self.pieces[key] = self.pool.put(taken(pattern.root, box))
        return self.pieces[key]

    def _received(self, worker: _Worker) -> None:
        """A call of a worker has ended."""
        future, worker.future = worker.future, None
        try:
            answer = self.pool.result(future)
        except ray_tasks.LOST as error:
            self._lose(worker, error)
            return
        number, worker.task = worker.task, None
        if number is None:  # it has been made
            return
        if answer == MISSING:
            _held.pop(worker.process, None)
            worker.tasks.discard(number)
            self.waiting.insert(0, number)
        elif answer is not None:
            report = unpacked(answer)
            worker.tasks.discard(number)
            if report.failure is not None:
                self.failures.append(report)
                self.stop_at = min(self.stop_at, report.failure.iteration)
                for other in self.workers:
                    if other.future is not None:
                        other.process.call.remote(self.key, "stop", (self.stop_at,), [])

    def _look(self) -> None:
        """Ask workers how far they are, if somebody wants to know."""
        if self.job.progress is unseen or time.monotonic() < self.looked + ASK_SECONDS:
            return
        self.looked = time.monotonic()
        for worker in self.workers:
            if worker.progress is None and worker.task is None:
                continue
            if worker.progress is None:
                worker.progress = worker.process.call.remote(self.key, "progress", (), [])
            elif self.pool.wait([worker.progress], 0):
                try:
                    worker.done = self.pool.result(worker.progress)
                except ray_tasks.LOST:
                    worker.done = 0
                worker.progress = None
        self.job.progress(sum(w.done for w in self.workers))

    # -- results --------------------------------------------------------------------------------------------------

    def _merged(self, staging: StagingFolder | None) -> dict[str, Any]:
        """What all workers changed, written; a worker that is lost on the way has its tasks run again by others."""
        on_cluster = self.job.merge == "cluster"
        folder = None if staging is None else staging.folder
        while True:
            try:
                reports = [unpacked(r) for r in self._all("finished", (folder, not on_cluster))]
                raise_first(reports)
                blocks = self._merged_blocks() if on_cluster else []
                break
            except _WorkerLost as error:
                self._lose(error.worker, error.cause)
                self._tasks()
                raise_first(self.failures)
        for target, values in blocks:
            target[...] = values
        out = merge(self.job, reports, staging)
        for worker in self.workers:
            worker.process.drop.remote(self.key)
        return out

    def _all(self, method: str, args: tuple[Any, ...]) -> list[Any]:
        """Call a method of all workers."""
        futures = [(w, w.process.call.remote(self.key, method, args, [])) for w in self.workers if w.tasks]
        return [self._answer(w, future) for w, future in futures]

    def _answer(self, worker: _Worker, future: Any) -> Any:
        try:
            while not self.pool.wait([future], LOOK_SECONDS):
                pass
            return self.pool.result(future)
        except ray_tasks.LOST as error:
            raise _WorkerLost(worker, error) from error

    def _merged_blocks(self) -> list[tuple[Any, Any]]:
        """Blocks of results, merged by workers: each block by one of them."""
        job = self.job
        targets = [(a, None) for a in job.results.arrays] + [(a, op) for a, op in job.summed]
        out: list[tuple[Any, Any]] = []
        waiting: list[tuple[Any, _Worker, Any]] = []
        turn = 0
        for n, (array, op) in enumerate(targets):
            step = max(1, BLOCK_BYTES // max(1, array.itemsize))
            blocks = [slice(k, min(k + step, array.size)) for k in range(0, array.size, step)]
            number = n if op is None else n - len(job.results.arrays)
            method = "changed_blocks" if op is None else "summed_blocks"
            calls = [
                (w, w.process.call_put.remote(self.key, method, (number, blocks))) for w in self.workers if w.tasks
            ]
            found = [self._answer(w, future) for w, future in calls]
            for k, block in enumerate(blocks):
                refs = [refs[k] for refs in found if refs[k] is not None]
                if not refs:
                    continue
                worker = calls[turn % len(calls)][0]
                turn += 1
                target = block_of(array, block)
                args: tuple[Any, ...] = (target,) if op is None else (op, target)
                name = "merge_changed" if op is None else "merge_summed"
                waiting.append((target, worker, worker.process.call.remote(self.key, name, args, refs)))
        for target, worker, future in waiting:
            out.append((target, self._answer(worker, future)))
        return out


class _WorkerLost(Exception):
    def __init__(self, worker: _Worker, cause: BaseException) -> None:
        self.worker, self.cause = worker, cause


def _served(written: frozenset[int], name: str, values: list[Any]) -> Any:
    """On a worker: the first value is the job's bytes."""
    return serve(values[0], written, name, values[1:])
