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
    # "needed"
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

    __slots__ = ("began", "done", "total", "worker")

    def __init__(self) -> None:
        self.began = 0.0
        self.done = 0
        self.total = 0
        self.worker = 0  # whose turn it is


activity = Activity()
listeners: list[Callable[[Event], None]] = []


def emit(event: Event) -> None:
    """Tell everyone who listens."""
    for listener in list(listeners):
        listener(event)
