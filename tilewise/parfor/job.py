"""One execution of a loop: what its tasks need and what they change.

In: a function of steps, values, a verdict. Out: `Job`.

`Job.run_task` runs one task in this process. Who runs which task, and how results come together, is in threads.py and
processes.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewise.parfor.merge import all_zero, set_zero
from tilewise.parfor.reductions.combine import start_of
from tilewise.parfor.streams import Streams


class _Missing:
    def __reduce__(self) -> str:
        return "MISSING"  # one per process, wherever it is sent


MISSING = _Missing()  # the value of a name that has none


class _Inside(threading.local):
    worker = False
    left = 1


# `inside.worker`: this thread is one that runs tasks; loops in them may use `inside.left` threads, or are plain ones.
inside = _Inside()


class Cancelled(BaseException):
    """An iteration before this one has failed: the rest of the task does not matter."""


@dataclass
class Results:
    """What the loop writes to, as it was before."""

    arrays: list[Any] = field(default_factory=list)  # ndarrays
    lists: list[list[Any]] = field(default_factory=list)
    dicts: list[dict[Any, Any]] = field(default_factory=list)
    instances: list[Any] = field(default_factory=list)
    streams: list[Any] = field(default_factory=list)  # bit generators of a list, each drawn from in one iteration

    def backup(self, folder: str | None = None) -> Results:
        """Copies, to go back to; of arrays of numbers in files, if there is a folder for them. None: zeros."""
        return Results(
            [
                None if all_zero(a) else _copy(a, None if folder is None else f"{folder}/backup-{n}")
                for n, a in enumerate(self.arrays)
            ],
            [list(x) for x in self.lists],
            [dict(x) for x in self.dicts],
            [dict(vars(x)) for x in self.instances],
            [x.state for x in self.streams],
        )

    def restore(self, backup: Results) -> None:
        """Go back."""
        for array, old in zip(self.arrays, backup.arrays, strict=True):
            if old is None:
                set_zero(array)
            else:
                array[...] = old
        for one, was in zip(self.lists, backup.lists, strict=True):
            one[:] = was
        for table, held in zip(self.dicts, backup.dicts, strict=True):
            table.clear()
            table.update(held)
        for instance, attributes in zip(self.instances, backup.instances, strict=True):
            vars(instance).clear()
            vars(instance).update(attributes)
        for stream, state in zip(self.streams, backup.streams, strict=True):
            stream.state = state


@dataclass
class Failure:
    """The exception of an iteration."""

    iteration: int
    error: BaseException


def _nothing() -> None:
    """Nobody counts."""


def unseen(done: int) -> None:
    """Nobody looks how far the loop is."""


@dataclass
class Job:
    """A loop that is to run."""

    body: Callable[..., dict[str, Any]]  # a function of steps and the names of the body
    names: dict[str, Any]
    elements: Sequence[Any]
    tasks: list[range]
    workers: int
    results: Results
    reductions: Mapping[str, str]  # names, and the operator that each is accumulated by
    summed: list[tuple[np.ndarray[Any, Any], str]]  # arrays that are accumulated in place
    kept: frozenset[str]  # names that keep their value of the last task
    streams: Streams | None
    generator: str | None  # the name of the generator of each iteration
    where: str  # file and line of the loop
    target: str  # the text of the loop's variable
    cells: list[tuple[Any, str, tuple[Any, ...] | None]] = field(default_factory=list)  # accumulated
    checked: bool = True  # the iterations are proved to be independent
    merge: str = "memory"  # how results of workers come together: "memory", "file", "cluster"
    threads: int = 1  # of BLAS, per worker
    left: int = 1  # threads that loops inside of a worker may use
    inner: int = 1  # threads that share the iterations of one task, on a worker with several cores
    inputs: Sequence[Any] = ()  # plan.inputs.Pattern: arrays of which each task is sent the part that it reads
    hidden: bool = False  # an array that is accumulated has views or other names, which threads would share
    count: Callable[[], None] = _nothing  # called after each iteration
    progress: Callable[[int], None] = unseen  # told now and then how many iterations are done

    def __len__(self) -> int:
        """How many iterations there are."""
        return sum(map(len, self.tasks))

    def steps(self, task: range, stop_at: Callable[[], float], made: Any, seen: list[int]) -> Iterator[Any]:
        """The elements of a task; ends early where an earlier iteration has failed."""
        for iteration in task:
            if iteration > stop_at():
                raise Cancelled
            seen[0] = iteration
            if self.streams is not None:
                made.bit_generator.state = self.streams.state(iteration)
            yield self.elements[iteration]
            self.count()

    def run_task(self, task: range, more: Mapping[str, Any], stop_at: Callable[[], float]) -> dict[str, Any]:
        """Run iterations in this process; what the names are afterwards. An exception has the iteration as a note."""
        made = self.streams.generator() if self.streams is not None else None
        given = {**self.names, **more}
        if self.generator is not None:
            given[self.generator] = made
        seen = [task.start]
        try:
            return self.body(self.steps(task, stop_at, made, seen), **given)
        except Cancelled:
            raise
        except BaseException as error:
            error.__dict__["_parfor_iteration"] = seen[0]
            if isinstance(error, Exception):
                text = f"in iteration {self.target} = {self.elements[seen[0]]!r:.80} of the parfor at {self.where}"
                line = _line_in(error, self.body.__code__.co_filename)
                error.add_note(f"{text}, line {line}" if line else text)
            raise

    def starts(self) -> dict[str, Any]:
        """What accumulated names start a task with."""
        return {name: start_of(op, self.names[name]) for name, op in self.reductions.items()}


def _copy(array: np.ndarray[Any, Any], file: str | None) -> np.ndarray[Any, Any]:
    if file is None or array.dtype.hasobject or not array.size:
        return array.copy(order="K")
    order: Any = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    kept = np.memmap(file, array.dtype, "w+", shape=array.shape, order=order)
    kept[...] = array
    return kept


def _line_in(error: BaseException, file: str) -> int | None:
    """The line of a file at which an exception was raised: the innermost one."""
    line, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def iteration_of(error: BaseException) -> int:
    """The iteration that an exception came from."""
    return int(error.__dict__.get("_parfor_iteration", 0))
