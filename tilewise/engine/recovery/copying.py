"""When blocks are copied to a neighbour, and to whom. In: what copies have cost, what there is to copy. Out: yes or no.

What is older than a copy need not be run again when a process is lost, and need not be remembered either. A copy is due
when fifty times what it takes have passed since the last one (with what it does to caches, that is still less than a
twentieth of the time: benchmarks/staying.py), or when the driver remembers much more than what is to be copied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping

from tilewise.layout import DRIVER
from tilewise.records import dataclass

SHARE = 50  # a copy takes at most this part of the time, as hosts measure it
LEAST_PLANS = 16  # between two copies
REMEMBERED_BYTES = 32 << 20  # of arrays that the driver sent, beyond four times what is to be copied
FIRST_SECONDS, FIRST_PER_BYTE = 1e-3, 1e-9  # what a copy takes, before one was made
FAILED_SECONDS = 1.0  # what one is held to take after one failed


@dataclass
class Copying:
    """The times of one session's copies."""

    plans: int = 0  # since the last one
    last: float = 0.0  # when it was made
    fixed: float = FIRST_SECONDS
    per_byte: float = FIRST_PER_BYTE

    def due(self, nbytes: int, remembered: int) -> bool:
        """Whether it is time to copy so many bytes (of one worker), where the driver remembers arrays of so many."""
        passed = time.monotonic() - self.last
        enough = self.plans >= LEAST_PLANS and passed >= SHARE * (self.fixed + self.per_byte * nbytes)
        return enough or self.crowded(nbytes, remembered)

    def may_be_due(self, remembered: int) -> bool:
        """Whether `due` or `crowded` can say yes, however little there is to copy: mostly not."""
        return time.monotonic() - self.last >= SHARE * self.fixed or self.crowded(0, remembered)

    @staticmethod
    def crowded(nbytes: int, remembered: int) -> bool:
        """Whether the driver remembers too much."""
        return remembered > REMEMBERED_BYTES + 4 * nbytes

    def begun(self) -> None:
        """A copy starts."""
        self.plans, self.last = 0, time.monotonic()

    def took(self, seconds: float, nbytes: int) -> None:
        """A copy is made: how long the processes took for how many bytes."""
        if nbytes >= 1 << 20:
            self.per_byte = max(0.0, seconds - self.fixed) / nbytes
        else:
            self.fixed = 0.5 * (self.fixed + seconds)
        self.last = time.monotonic()

    def failed(self) -> None:
        """A copy could not be made."""
        self.fixed, self.last = FAILED_SECONDS, time.monotonic()


def keepers(hosts: Mapping[int, tuple[int, ...]], node_of: Callable[[int], Hashable]) -> dict[int, int]:
    """By worker: one of another process, on another machine if there is one, that keeps its copies; else the driver."""
    out: dict[int, int] = {}
    ring = list(hosts)
    for at, host in enumerate(ring):
        others = ring[at + 1 :] + ring[:at]
        apart = [h for h in others if node_of(h) != node_of(host)]
        home = next(iter(apart or others), None)
        for k, w in enumerate(hosts[host]):
            out[w] = DRIVER if home is None else hosts[home][k % len(hosts[home])]
    return out
