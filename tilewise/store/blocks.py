"""A BlockStore in memory. In: keys, blocks, a budget. Out: the blocks, and counts of their bytes.

Bytes are counted by owner of memory: all blocks that are views of one array count as the largest of them. Not for
several threads: a worker does one thing after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import count
from typing import Any

import numpy as np

from tilewise.errors import MemoryBudgetError, message
from tilewise.store.base import ND, BlockError, BlockStore

WAYS_KEPT = 256  # in which blocks lie


class _Memory:
    """An array that blocks are views of (or are), how many, and the bytes of the largest."""

    __slots__ = ("blocks", "nbytes", "owner")

    def __init__(self, owner: ND) -> None:
        self.owner = owner  # kept alive: its id is the key
        self.blocks = self.nbytes = 0


class _Entry:
    __slots__ = ("block", "counted", "lies", "memory", "pins", "reserved")

    def __init__(self, reserved: int, block: ND | None = None, memory: _Memory | None = None) -> None:
        self.block = block
        self.memory = memory
        self.pins = 0
        self.reserved = reserved
        self.lies: int | None = None  # how it lies (`MemoryBlocks.lies`), if its memory counts as so many bytes:
        self.counted = 0


class MemoryBlocks(BlockStore):
    """Blocks of one worker; `where` names it in errors, `name_of` its blocks.

    Every value of every plan comes by here: a call of a function costs more than what most methods do.
    """

    def __init__(
        self, budget: int | None = None, where: str = "this process", name_of: Callable[[Any], str] = str
    ) -> None:
        self.budget = budget
        self.where = where
        self.name_of = name_of
        self.reserved_bytes = self.peak_bytes = 0
        self._entries: dict[Hashable, _Entry] = {}
        self._memory: dict[int, _Memory] = {}  # by the id of the owner
        self._ways: dict[tuple[Any, ...], int] = {}  # in which a block may lie: their numbers
        self._numbers = count()

    def reserve(self, key: Hashable, nbytes: int) -> None:
        """Set bytes aside."""
        if key in self._entries:
            raise BlockError(f"the key {key} is taken")
        self._take(key, nbytes)
        self._entries[key] = _Entry(nbytes)

    def expect(self, nbytes: int) -> None:
        """Count so many bytes for blocks that are about to come, where there is no budget: without names for them."""
        assert self.budget is None, "what may be refused is reserved"
        total = self.reserved_bytes + nbytes
        if total > self.peak_bytes:
            self.peak_bytes = total

    def put(self, key: Hashable, block: ND) -> None:
        """Keep a block. Without a reservation it is refused as one would be."""
        entry = self._entries.get(key)
        if entry is not None and entry.block is not None:
            raise BlockError(f"the key {key} has a block")
        owner: Any = block
        while type(owner.base) is np.ndarray:
            owner = owner.base
        memory = self._memory.get(id(owner))
        known = 0 if memory is None else memory.nbytes
        needs = block.nbytes
        if owner is not block and needs > owner.nbytes:
            needs = owner.nbytes  # a broadcast view is larger than its memory
        if needs < known:
            needs = known
        more = needs - known - (0 if entry is None else entry.reserved)
        if more > 0:
            self._take(key, more)
        else:
            self.reserved_bytes += more
        if memory is None:
            memory = self._memory[id(owner)] = _Memory(owner)
        memory.blocks += 1
        memory.nbytes = needs
        if entry is None:
            self._entries[key] = _Entry(0, block, memory)
        else:
            entry.block, entry.memory, entry.reserved = block, memory, 0

    def lie(self, blocks: Sequence[ND]) -> list[Any]:
        """How blocks that are here lie, as far as counting can tell: equal ones are counted alike from here on."""
        found: list[Any] = []
        seen: dict[int, int] = {}
        for x in blocks:
            owner: Any = x
            while type(owner.base) is np.ndarray:
                owner = owner.base
            memory = self._memory.get(id(owner))
            counted = None if memory is None else memory.nbytes
            first = 0 if owner is x else x.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
            found += (counted, seen.setdefault(id(owner), len(seen)), owner.nbytes, first, owner is x)
            found += (x.shape, x.strides, x.flags.writeable)
        return found

    def put_new(self, key: Hashable, block: ND, lies: int | None) -> None:
        """The same as `put` for a block in memory that is new, where there is no budget and nothing was reserved.

        `lies`: what `lies` would give for it, if that is known.
        """
        owner: Any = block
        while type(owner.base) is np.ndarray:
            owner = owner.base
        memory = self._memory[id(owner)] = _Memory(owner)
        memory.blocks = 1
        nbytes = memory.nbytes = block.nbytes
        entry = self._entries[key] = _Entry(0, block, memory)
        entry.lies, entry.counted = lies, nbytes
        total = self.reserved_bytes = self.reserved_bytes + nbytes
        if total > self.peak_bytes:
            self.peak_bytes = total

    def lies(self, key: Hashable, also: Callable[[ND], Any]) -> int | None:
        """How a block lies that has its memory to itself, as a number; None if it has not.

        Blocks have the same number if `lie` and `also` find them alike.
        """
        entry = self._entries[key]
        block, memory = entry.block, entry.memory
        if memory is None or memory.blocks > 1:
            return None
        if entry.lies is None or entry.counted != memory.nbytes:
            assert block is not None
            way = (also(block), *self.lie([block]))
            if way not in self._ways:
                if len(self._ways) >= WAYS_KEPT:
                    self._ways.clear()  # their numbers are not used again
                self._ways[way] = next(self._numbers)
            entry.lies, entry.counted = self._ways[way], memory.nbytes
        return entry.lies

    def get(self, key: Hashable) -> ND:
        """The block of a key."""
        entry = self._entries.get(key)
        if entry is None or entry.block is None:
            raise self._missing(key)
        return entry.block

    def pin(self, key: Hashable) -> None:
        """Keep a block."""
        entry = self._entries.get(key)
        if entry is None:
            raise self._missing(key)
        entry.pins += 1

    def unpin(self, key: Hashable) -> None:
        """Take back one pin."""
        entry = self._entries.get(key)
        if entry is None or not entry.pins:
            raise BlockError(f"the key {key} is not pinned")
        entry.pins -= 1

    def release(self, key: Hashable) -> None:
        """Let go of a block."""
        entry = self._entries.get(key)
        if entry is None:
            raise self._missing(key)
        if entry.pins:
            raise BlockError(f"the key {key} is pinned")
        del self._entries[key]
        self.reserved_bytes -= entry.reserved
        memory = entry.memory
        if memory is not None:
            memory.blocks -= 1
            if not memory.blocks:
                self.reserved_bytes -= memory.nbytes
                del self._memory[id(memory.owner)]

    def reset_peak(self) -> None:
        """Count the peak from now."""
        self.peak_bytes = self.reserved_bytes

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def _missing(self, key: Hashable) -> BlockError:
        return BlockError(f"the key {key} has no block" + (" yet" if key in self._entries else ""))

    def _take(self, key: Hashable, nbytes: int) -> None:
        total = self.reserved_bytes + nbytes
        if self.budget is not None and total > self.budget:
            raise MemoryBudgetError(
                message(
                    f"no room for {self.name_of(key)} in {self.where}",
                    got=f"{nbytes:,} bytes with {self.reserved_bytes:,} of {self.budget:,} in use",
                    cure="Use more workers, evaluate in smaller parts, or raise memory=",
                )
            )
        self.reserved_bytes = total
        if total > self.peak_bytes:
            self.peak_bytes = total
