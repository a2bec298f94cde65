"""Loops over arrays of middling size. In: operators about to be done at once. Out: whether to record from here on.

Arrays below `eager_bytes` are done at once (docs/design/0003-at-once.md). But a long elementwise loop over them takes
one kernel if it is recorded and its turns are alike (plan/roll.py). So after many operators a place is tried; if what
was recorded from there was rolled, recording begins there from then on, else it never does again.
"""

from __future__ import annotations

from tilewise.array.session import cluster_here
from tilewise.config import current

LEAST_BYTES = 256 << 10  # below, NumPy has done an operation before it is recorded ten times over
LONG = 512  # operators at once before a place is tried: they took longer than planning and compiling will
TRIES = 8  # places that may be tried in vain

Place = tuple[int, int]


class Streak:
    """What was done at once since the last evaluation, and where recording begins."""

    __slots__ = ("count", "refused", "start", "starts")

    def __init__(self) -> None:
        self.count = 0  # operators
        self.start: Place | None = None  # of what is recorded now
        self.starts: set[Place] = set()
        self.refused = 0

    def begins(self, place: Place) -> bool:
        """Whether to record from here on."""
        if self.start is not None:
            return True
        self.count += 1
        if place not in self.starts and (self.count < LONG or self.refused >= TRIES):
            return False
        settings = current()
        if settings.engine is not None or cluster_here(settings.blocks)[0] is not None:
            return False
        self.starts.add(place)
        self.start = place
        return True

    def ended(self, rolled: bool) -> None:
        """An evaluation: whether it had a loop."""
        self.count = 0
        if self.start is not None:
            if not rolled:
                self.starts.discard(self.start)
                self.refused += 1
            self.start = None


streak = Streak()
