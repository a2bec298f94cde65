"""Loops over arrays of middling size. In: operators about to be done at once. Out: whether to record from here on.

Arrays below `eager_bytes` are done at once (docs/design/0003-at-once.md). But a long elementwise loop over them takes
one kernel if it is recorded and its iterations are alike (plan/roll.py). So after many operators a place is tried; if
what was recorded from there was rolled, recording begins there from then on.

This depends on what ran before, so it must not change a bit (docs/design/0022-same-bits.md): what is recorded here has
the mark PROMOTED in its trail. Operators whose native code gives NumPy's bits (exact.py) stay recorded; before anything
else reads it, it is evaluated, and NumPy does the rest at once, as without promotion.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from tilewise.array.handle import Array, meta
from tilewise.array.schedule.loop_flush import PROMOTED
from tilewise.array.session import cluster_here
from tilewise.config import current
from tilewise.ir.node import Length

LEAST_BYTES = 256 << 10  # below, NumPy has done an operation before it is recorded ten times over
LONG = 512  # operators at once before a place is tried: they took longer than planning and compiling will
TRIES = 8  # places that may be tried in vain
FOREVER = 1 << 62

Place = tuple[int, ...]


class Allowance(Protocol):
    """A number in memory."""

    value: int


class Promotion:
    """What was done at once since the last evaluation, and where recording begins."""

    __slots__ = ("_allowance", "count", "refused", "start", "starts")

    def __init__(self) -> None:
        self.count = 0  # operators, done or recorded
        self.start: Place | None = None  # of what is recorded now
        self.starts: set[Place] = set()  # where recording begins
        self.refused = 0
        self._allowance: Allowance | None = None

    def follow(self, allowance: Allowance) -> None:
        """Keep a number up to date: of operations that may be done at once without asking here."""
        self._allowance = allowance
        self._allow()

    def _allow(self) -> None:
        if self._allowance is not None:
            quiet = self.start is None and not self.starts
            self._allowance.value = (FOREVER if self.refused >= TRIES else LONG - 1) if quiet else 0

    def asleep(self) -> bool:
        """Count an operator: whether recording begins with it nowhere."""
        self.count += 1
        return self.start is None and not self.starts and (self.count < LONG or self.refused >= TRIES)

    def begins(self, place: Place) -> bool:
        """Whether to record from here on (of an operator that was counted)."""
        if self.start is not None:
            return True
        if place not in self.starts and (self.count < LONG or self.refused >= TRIES):
            return False
        settings = current()
        if settings.engine is not None or cluster_here(settings.blocks)[0] is not None:
            return False
        self.count = 1
        self.starts.add(place)
        self.start = place
        self._allow()
        return True

    def ended(self, rolled: bool) -> None:
        """An evaluation: whether it had a loop."""
        start, self.start = self.start, None  # another thread may begin
        if start is not None and not rolled:
            self.starts.discard(start)
            self.refused += 1
        self.count = 0
        self._allow()


promotion = Promotion()


def promoted(x: Any) -> Any:
    """The same array, marked as recorded although it is small."""
    node = x._cell.node if type(x) is Array else None
    if node is not None and node.value is None and node.inputs:
        node.trail |= PROMOTED
    return x


def stays(args: Sequence[Any]) -> bool:
    """Whether an exact operator on these operands would be done at once, if none of them were promoted."""
    limit = current().eager_bytes
    shape: Any = None
    points = 0
    for a in args:
        if type(a) is Array:
            node, nd = a._cell.node, a._nd
            if node is None:
                part: Any = meta(a)
            elif node.trail & PROMOTED and node.inputs:
                part = node if nd is None else nd
            else:
                return False
            own = part.shape
            size = points
            if own is not shape:
                size = 1
                for n in own:
                    if type(n) is Length:
                        return False
                    size *= n
            if size * part.dtype.itemsize >= limit or not own:
                return False
            if shape is None:
                shape, points = own, size
            elif shape != own:
                try:
                    shape = np.broadcast_shapes(shape, own)
                except ValueError:
                    return False
                points = prod(shape)
                if points * 8 >= limit:
                    return False
    return True
