"""Processes of Ray for tasks that do not talk to each other. In: how many. Out: a `Pool` that makes and calls objects.

Each process holds objects by key, made there by functions that are given; their methods are called. The Ray of a
session is used if there is one, else one is started, which stays until the program ends. Two calls may run at a time
in a process, so that one can say how far the other is, or stop it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tilewise.backend import threads as thread_pool
from tilewise.engine import ray as door
from tilewise.machine import machine

_door: Any = door  # Ray is untyped
ray, lost, cloudpickle = _door.ray, _door.lost, _door.cloudpickle
LOST: tuple[type[Exception], ...] = (
    lost.RayActorError,
    lost.WorkerCrashedError,
    lost.ObjectLostError,
    lost.OutOfMemoryError,
    lost.RaySystemError,
)
CALLS = 2  # at a time, per process


class TaskProcess:
    """What runs in a process."""

    def __init__(self, threads: int) -> None:
        thread_pool.set_threads(threads)
        self.objects: dict[int, Any] = {}

    def make(self, key: int, function: Callable[..., Any], args: Sequence[Any], refs: Sequence[Any]) -> str:
        """Make an object; `refs` are values that are fetched here. Returns the node."""
        self.objects.clear()
        self.objects[key] = function(*args, ray.get(list(refs)))
        return str(ray.get_runtime_context().get_node_id())

    def call(self, key: int, method: str, args: Sequence[Any], refs: Sequence[Any]) -> Any:
        """Call a method of an object."""
        return getattr(self.objects[key], method)(*args, *ray.get(list(refs)))

    def call_put(self, key: int, method: str, args: Sequence[Any]) -> list[Any]:
        """Call a method whose results stay here: where to find each."""
        return [None if value is None else ray.put(value) for value in getattr(self.objects[key], method)(*args)]

    def drop(self, key: int) -> None:
        """Forget an object."""
        self.objects.pop(key, None)


_remote: Any = ray.remote
_Process = _remote(max_restarts=0, max_task_retries=0, max_concurrency=CALLS, num_cpus=0)(TaskProcess)


class Pool:
    """Processes that are there, and those that are to come. One per program, for one Ray at a time."""

    def __init__(self, workers: int) -> None:
        self.started = not ray.is_initialized()
        threads = max(1, machine().cores // workers)
        self.connection = door._connect(None, threads, workers)
        self.closed = False
        self.context = _context()
        self.processes: list[Any] = []
        self.keys = itertools.count(1)
        if self.started:
            door._open.append(self)

    @property
    def usable(self) -> bool:
        """Whether its Ray is still there."""
        return not self.closed and bool(ray.is_initialized()) and self.context == _context()

    def grow(self, workers: int, threads: int) -> list[Any]:
        """So many processes, those that are there first."""
        while len(self.processes) < workers:
            self.processes.append(_Process.options(scheduling_strategy="SPREAD").remote(threads))
        return self.processes[:workers]

    def end(self, process: Any) -> None:
        """Kill a process."""
        if process in self.processes:
            self.processes.remove(process)
        if ray.is_initialized():
            ray.kill(process, no_restart=True)

    def put(self, value: Any) -> Any:
        """A value in Ray's memory, once for all that need it."""
        return ray.put(value)

    def wait(self, futures: Sequence[Any], seconds: float) -> list[Any]:
        """Those that are done; at most so long."""
        done, _ = ray.wait(list(futures), num_returns=1, timeout=seconds)
        return list(done)

    def result(self, future: Any) -> Any:
        """The result of a call that is done; raises one of LOST if its process is gone."""
        return ray.get(future)

    def close(self) -> None:
        """End the processes, and Ray if it was started for them."""
        if self.closed:
            return
        self.closed = True
        for process in list(self.processes):
            self.end(process)
        if self in door._open:
            door._open.remove(self)
            if not any(c.connection is self.connection for c in door._open):
                self.connection.end()


def _context() -> str:
    return str(ray.get_runtime_context().get_job_id()) if ray.is_initialized() else ""


_pool: Pool | None = None


def pool(workers: int) -> Pool:
    """The pool of this program."""
    global _pool
    if _pool is None or not _pool.usable:
        if _pool is not None:
            _pool.close()
        _pool = Pool(workers)
    return _pool


def running() -> bool:
    """Whether there is a Ray already."""
    return bool(ray.is_initialized())


def close() -> None:
    """End the pool, if there is one."""
    if _pool is not None:
        _pool.close()
