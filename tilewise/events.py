"""Events: what engines report while they run. In: calls of `emit`. Out: whoever listens (profiles, progress).

Nothing is timed or built unless someone listens.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewise.records import dataclass


@dataclass(frozen=True)
class Event:
    """One thing that happened: a step of a plan, an exchange, a fallback to NumPy."""

    # "pass", "call", "write", "exchange", "gather", "read", "store", "memory", "process", "fallback", "compile",
    # "needed", "stolen" (blocks of a worker that others computed), "retry" (lost workers were brought back), "spill"
    kind: str
    name: str
    start: float  # seconds, time.perf_counter
    end: float
    bytes: int = 0  # touched in memory, moved, read, or held at most
    worker: int = 0
    where: str = ""
    flops: float = 0.0  # operations on numbers


class Activity:
    """The evaluation under way: when it began (0: none is), and how far it is."""

    __slots__ = ("began", "bytes", "done", "iterations", "loop", "part", "parts", "total", "what", "worker")

    def __init__(self) -> None:
        self.began = 0.0
        self.done = 0
        self.total = 0
        self.worker = 0  # whose turn it is
        self.loop = 0  # iterations of the parallel loop under way
        self.iterations = 0  # of it that are done
        self.what = ""  # what parts are: blocks of a loop over files, steps on workers
        self.part = self.parts = 0  # those that are done, and all; 0: there are none
        self.bytes = 0  # that were read or moved on the way

    def reach(self, what: str, part: int, parts: int, nbytes: int) -> None:
        """So many parts of the evaluation under way are done."""
        self.what, self.part, self.parts, self.bytes = what, part, parts, nbytes


activity = Activity()
listeners: list[Callable[[Event], None]] = []


def emit(event: Event) -> None:
    """Tell everyone who listens."""
    for listener in list(listeners):
        listener(event)
