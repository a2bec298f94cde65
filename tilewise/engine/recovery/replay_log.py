"""The plans that values alive on workers were made by. In: plans as they run. Out: what lost workers must run again.

What was copied (copies.py) need not be made again: plans that ran before a copy leave the log.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tilewise.records import dataclass

ND = np.ndarray[Any, Any]


@dataclass(eq=False)
class Entry:
    """One plan that ran: enough to run it again. Number 0: no plan, but a value of which there are copies."""

    number: int
    leaves: tuple[Any, ...]  # a key, the array itself, or a source that workers open
    consts: tuple[Any, ...]
    keys: tuple[int, ...]
    backend: str  # that ran it
    rooted: bool = False  # it reads nothing but files, about as much as it makes: it can as well run again
    sinks: tuple[Any, ...] = ()  # where results are written (packed; None: they are kept), if any are
    uses: int = 0  # results still alive, and later entries that read one
    counted: bool = False  # what it moved when it first ran to its end
    run: int = 0  # the number of its last run
    told: dict[int, Any] = field(default_factory=dict)  # results that the driver was told of, by key

    @property
    def nbytes(self) -> int:
        """Bytes of the driver's arrays that it keeps."""
        total = 0
        for x in self.leaves:
            if type(x) is not int and isinstance(x, np.ndarray):
                total += x.nbytes
        return total


class Log:
    """The plans that the values still alive were made by, in order.

    An array that the driver sent may be written to afterwards, so the log has a copy of its own: one, however often the
    same contents are sent, and only as long as an entry needs it.
    """

    def __init__(self) -> None:
        self.entries: dict[Entry, None] = {}
        self.maker: dict[int, Entry] = {}
        self.live: dict[int, int] = {}  # keys with handles: bytes of a worker's blocks
        self.fresh: set[int] = set()  # those of which there are no copies, and ought to be
        self.nbytes = 0  # of the driver's arrays
        self.unneeded: set[int] = set()  # keys of copies that can go
        self.copies: weakref.WeakValueDictionary[Any, ND] = weakref.WeakValueDictionary()

    def __iter__(self) -> Iterator[Entry]:
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

    def add(self, entry: Entry, sizes: Sequence[int]) -> None:
        """Note a plan that ran; its results have handles, and blocks of such sizes."""
        self.live.update(zip(entry.keys, sizes, strict=True))
        if not entry.rooted:
            self.fresh.update(entry.keys)
        self._enter(entry)

    def _enter(self, entry: Entry) -> None:
        live, made_by = self.live, self.maker
        self.entries[entry] = None
        self.nbytes += entry.nbytes
        uses = 0
        for key in entry.keys:
            uses += key in live
            made_by[key] = entry
        entry.uses = uses
        for x in entry.leaves:
            if type(x) is int and (maker := made_by.get(x)) is not None:
                maker.uses += 1

    def release(self, keys: Sequence[int]) -> None:
        """Handles are gone: forget plans whose results nothing hangs on."""
        gone = [self.maker[k] for k in keys if self.live.pop(k, None) is not None]
        self.fresh.difference_update(keys)
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
        self.nbytes -= entry.nbytes
        entry.leaves = tuple([x for x in entry.leaves if type(x) is int])  # it may be under way for a while
        for key in entry.keys:
            del self.maker[key]
        if not entry.number:
            self.unneeded.update(entry.keys)

    def _makers(self, entry: Entry) -> list[Entry]:
        found = [self.maker.get(x) for x in entry.leaves if isinstance(x, int)]
        return [maker for maker in found if maker is not None]

    # -- copies -------------------------------------------------------------------------------------------------------

    def fresh_bytes(self) -> int:
        """Bytes of a worker's blocks of which there are no copies."""
        return sum(self.live[k] for k in self.fresh)

    def copied(self, before: Collection[Entry], keys: Collection[int]) -> None:
        """There are copies of the values with these keys, as they were after some entries: those are not needed.

        Entries of values with copies are made anew each time, so another copy may not know them: they count as before.
        """
        had = {*self.kept()}
        after = [e for e in self.entries if e.number and e not in before]
        needed = {*self.live, *(x for e in after for x in e.leaves if isinstance(x, int))}
        again = [e for e in self.entries if e in before and e.rooted and not needed.isdisjoint(e.keys)]
        made = {k for e in (*again, *after) for k in e.keys}
        kept = sorted(k for k in needed if k in self.maker and k not in made)
        assert had.union(keys).issuperset(kept), "what is needed was held when it was copied"
        self.entries, self.maker, self.nbytes = {}, {}, 0
        for entry in (*(Entry(0, (), (), (k,), "") for k in kept), *again, *after):
            self._enter(entry)
        self.fresh.difference_update(keys)
        self.unneeded.update(had.union(keys).difference(kept))

    def kept(self) -> list[int]:
        """The keys of which there are copies."""
        return [k for e in self.entries if not e.number for k in e.keys]

    def without_copies(self) -> None:
        """A process was lost: nobody knows whether there are two of anything."""
        self.fresh = {k for k in self.live if k in self.maker and not self.maker[k].rooted}
        self.unneeded.clear()

    # -- running again ------------------------------------------------------------------------------------------------

    def replay(self) -> list[tuple[Entry, list[int]]]:
        """The plans to run in order, with the keys that nobody needs after each."""
        last: dict[int, Entry] = {}
        for entry in self.entries:
            for key in (*entry.keys, *(x for x in entry.leaves if isinstance(x, int))):
                last[key] = entry
        ends: dict[Entry, list[int]] = {}
        for key, entry in last.items():
            if key not in self.live:
                ends.setdefault(entry, []).append(key)
        return [(entry, ends.get(entry, [])) for entry in self.entries if entry.number]


def _same_bits(a: ND, b: ND) -> bool:
    """Whether two arrays of one shape and dtype hold the same bytes (NaN is NaN, -0 is not 0)."""
    if a.dtype.hasobject:
        return False
    x, y = (v.ravel(order="K").view(np.uint8) for v in (a, b))
    wide = np.uint64 if x.size % 8 == 0 else np.uint8
    return bool(np.array_equal(x.view(wide), y.view(wide)))
