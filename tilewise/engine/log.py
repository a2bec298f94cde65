"""The plans that values alive on workers were made by. In: plans as they run. Out: what lost workers must run again."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

ND = np.ndarray[Any, Any]


@dataclass(eq=False)
class Entry:
    """One plan that ran: enough to run it again."""

    number: int
    leaves: tuple[Any, ...]  # a key, the array itself, or a source that workers open
    consts: tuple[Any, ...]
    keys: tuple[int, ...]
    backend: str  # that ran it
    uses: int = 0  # results still alive, and later entries that read one
    counted: bool = False  # what it moved when it first ran to its end


class Log:
    """The plans that the values still alive were made by, in order.

    An array that the driver sent may be written to afterwards, so the log has a copy of its own: one, however often the
    same contents are sent, and only as long as an entry needs it. (The log itself grows with the number of plans behind
    a live value until there are checkpoints.)
    """

    def __init__(self) -> None:
        self.entries: dict[Entry, None] = {}
        self.maker: dict[int, Entry] = {}
        self.live: set[int] = set()
        self.copies: weakref.WeakValueDictionary[Any, ND] = weakref.WeakValueDictionary()

    def __iter__(self) -> Any:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def keep(self, x: ND) -> ND:
        """A private copy of an array."""
        where = (x.__array_interface__["data"][0], x.shape, x.strides, x.dtype)
        kept = self.copies.get(where)
        if kept is None or not _same_bits(kept, x):
            kept = self.copies[where] = x.copy(order="K")
        return kept

    def add(self, entry: Entry) -> None:
        """Note a plan that ran; its results have handles."""
        self.entries[entry] = None
        self.live.update(entry.keys)
        entry.uses = len(entry.keys)
        for key in entry.keys:
            self.maker[key] = entry
        for maker in self._makers(entry):
            maker.uses += 1

    def release(self, keys: Sequence[int]) -> None:
        """Handles are gone: forget plans whose results nothing hangs on."""
        gone = [self.maker[k] for k in keys if k in self.live]
        self.live.difference_update(keys)
        self._less_used(gone)

    def forget(self, entry: Entry) -> None:
        """A plan that did not come to its end: nobody can have its results."""
        if entry in self.entries:
            self.release(entry.keys)
        if entry in self.entries:  # later entries read what it should have made: they cannot run either
            self._end(entry)
            self._less_used(self._makers(entry))

    def _less_used(self, gone: list[Entry]) -> None:
        while gone:
            entry = gone.pop()
            entry.uses -= 1
            if not entry.uses:
                gone.extend(self._makers(entry))
                self._end(entry)

    def _end(self, entry: Entry) -> None:
        del self.entries[entry]
        for key in entry.keys:
            del self.maker[key]

    def _makers(self, entry: Entry) -> list[Entry]:
        found = [self.maker.get(x) for x in entry.leaves if isinstance(x, int)]
        return [maker for maker in found if maker is not None]

    def replay(self) -> list[tuple[Entry, list[int]]]:
        """Entries in order, with the keys that nobody needs after each."""
        last: dict[int, Entry] = {}
        for entry in self.entries:
            for key in (*entry.keys, *(x for x in entry.leaves if isinstance(x, int))):
                last[key] = entry
        ends: dict[Entry, list[int]] = {}
        for key, entry in last.items():
            if key not in self.live:
                ends.setdefault(entry, []).append(key)
        return [(entry, ends.get(entry, [])) for entry in self.entries]


def _same_bits(a: ND, b: ND) -> bool:
    """Whether two arrays of one shape and dtype hold the same bytes (NaN is NaN, -0 is not 0)."""
    if a.dtype.hasobject:
        return False
    x, y = (v.ravel(order="K").view(np.uint8) for v in (a, b))
    wide = np.uint64 if x.size % 8 == 0 else np.uint8
    return bool(np.array_equal(x.view(wide), y.view(wide)))
