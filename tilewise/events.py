"""Events: what engines report while they run. In: calls of `emit`. Out: whoever listens (profiles, progress).

Nothing is timed or built unless someone listens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """One thing that happened: a step of a plan, an exchange, a fallback to NumPy."""

    kind: str  # "pass", "call", "write", "exchange", "gather", "fallback", "plan"
    name: str
    start: float  # seconds, time.perf_counter
    end: float
    bytes: int = 0  # touched in memory, or moved
    worker: int = 0
    where: str = ""


listeners: list[Callable[[Event], None]] = []


def emit(event: Event) -> None:
    """Tell everyone who listens."""
    for listener in list(listeners):
        listener(event)
