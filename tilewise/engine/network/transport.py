"""How the pieces of an exchange get from one worker to another: a seam. In: pieces, a tag. Out: the same pieces.

A message is known by who sent it, for whom, and its tag, so that it does not matter when it comes. Two implementations:
`Mailbox` (here) for workers of one process, `Wire` (wire.py) for those of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

ND = np.ndarray[Any, Any]


class Tag(NamedTuple):
    """Which message: of which life of the workers, of which run of a plan, for which of its rounds."""

    epoch: int  # grows whenever workers are brought back: what was sent before is void
    run: int
    round: int


class Transport(Protocol):
    """What a host needs of the others."""

    def begin(self, run: int) -> None:
        """A run starts: what is left of earlier ones can go."""

    def send(self, sender: int, receiver: int, tag: Tag, pieces: Sequence[ND]) -> None:
        """Give pieces to another worker; they may be overwritten when this returns."""

    def receive(self, sender: int, receiver: int, tag: Tag) -> list[ND]:
        """Wait for pieces. Raises PeerFailed, PeerLost or Cancelled where they will not come."""

    def fail(self, tag: Tag) -> None:
        """Tell the others that this process sends no more in this run."""


class PeerFailed(Exception):
    """Another worker failed in the run: it says why itself."""


class PeerLost(Exception):
    """Another worker is gone."""


class Cancelled(Exception):
    """The driver has given up the run."""


class Mailbox:
    """Messages between the workers of one process, which take turns: what is waited for is there."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[int, int, Tag], list[ND]] = {}

    def begin(self, run: int) -> None:
        """Forget what a run that failed left behind."""
        self._pieces.clear()

    def send(self, sender: int, receiver: int, tag: Tag, pieces: Sequence[ND]) -> None:
        """Copy, as a wire does: the sender may overwrite its blocks before they are read."""
        self._pieces[sender, receiver, tag] = [p.copy() for p in pieces]

    def receive(self, sender: int, receiver: int, tag: Tag) -> list[ND]:
        """Take what was sent."""
        return self._pieces.pop((sender, receiver, tag))

    def fail(self, tag: Tag) -> None:
        """Nobody else is there."""
