"""Loops over arrays of middling size. In: operators about to be done at once. Out: whether to record from here on.

Arrays below `eager_bytes` are done at once (docs/design/0003-at-once.md). But a long elementwise loop over them takes
one kernel if it is recorded and its turns are alike (plan/roll.py). So after many operators a place is tried; if what
was recorded from there was rolled, and an operator took no longer than at once, recording begins there from then on.
"""

from __future__ import annotations

from time import perf_counter

from tilewise.array.session import cluster_here
from tilewise.config import current

LEAST_BYTES = 256 << 10  # below, NumPy has done an operation before it is recorded ten times over
LONG = 512  # operators at once before a place is tried: they took longer than planning and compiling will
SLOW = 1.5  # times as long as at once: recording does not pay
TRIES = 8  # places that may be tried in vain

Place = tuple[int, int]


class Streak:
    """What was done at once since the last evaluation, and where recording begins."""

    __slots__ = ("began", "count", "pace", "refused", "start", "starts")

    def __init__(self) -> None:
        self.count = 0  # operators, done or recorded
        self.began = 0.0  # when the first of them came
        self.pace = 0.0  # seconds of an operator that is done at once
        self.start: Place | None = None  # of what is recorded now
        self.starts: dict[Place, int] = {}  # how often recording began there
        self.refused = 0

    def begins(self, place: Place) -> bool:
        """Whether to record from here on."""
        self.count += 1
        if self.start is not None:
            return True
        if self.count == 1:
            self.began = perf_counter()
        if place not in self.starts and (self.count < LONG or self.refused >= TRIES):
            return False
        settings = current()
        if settings.engine is not None or cluster_here(settings.blocks)[0] is not None:
            return False
        now = perf_counter()
        if self.count >= LONG:
            self.pace = (now - self.began) / self.count
        self.count, self.began = 1, now
        self.starts[place] = self.starts.get(place, 0) + 1
        self.start = place
        return True

    def ended(self, rolled: bool) -> None:
        """An evaluation: whether it had a loop. The first at a place may have compiled; later ones must be quick."""
        start, self.start = self.start, None  # another thread may begin
        if start is not None:
            slow = perf_counter() - self.began > SLOW * self.pace * self.count and self.starts.get(start, 0) > 1
            if not rolled or slow:
                self.starts.pop(start, None)
                self.refused += 1
        self.count = 0


streak = Streak()
