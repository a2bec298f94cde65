"""Values that a worker holds, by number. In: blocks of values. Out: the same. The blocks live in a MemoryBlocks.

A value is reserved before a step makes it, so that a step that does not fit is refused before it overwrites anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tilewise.ops.traits.collectives import Parts
from tilewise.store.base import ND
from tilewise.store.blocks import MemoryBlocks

Key = tuple[str, int, int]  # kind and number of a value, and its block (-1: the worker holds it once)


def name_of(key: Key) -> str:
    """A block in the words of an error."""
    kind, number, block = key
    return f"{kind} {number} ({'once' if block < 0 else f'block {block}'})"


class Held(Mapping[int, Parts]):
    """Values of one kind (`name`): those of the plan under way, or those that stay."""

    def __init__(self, blocks: MemoryBlocks, name: str) -> None:
        self.blocks = blocks
        self.name = name
        self._parts: dict[int, Parts] = {}  # the blocks in the store, by value
        self._reserved: dict[int, Mapping[int, int]] = {}  # the sizes of those to come
        self._constants: dict[int, Parts] = {}  # not counted, and kept to the end
        self._files: dict[int, Parts] = {}  # values in files of this process, mapped: not counted

    def reserve(self, number: int, sizes: Mapping[int, int]) -> None:
        """Set bytes aside for the blocks of a value that a step is about to make."""
        name, blocks = self.name, self.blocks
        self._reserved[number] = sizes
        for block, nbytes in sizes.items():
            blocks.reserve((name, number, block), nbytes)

    def put(self, number: int, parts: Parts) -> None:
        """The blocks of a value: all of those that were reserved for it."""
        name, blocks = self.name, self.blocks
        self._parts[number] = parts
        for block, x in parts.items():
            blocks.put((name, number, block), x)
        self._reserved.pop(number, None)

    def put_new(self, number: int, block: int, x: ND, lies: int | None = None) -> None:
        """The only block of a value, in memory that is new, where nothing is refused (see `MemoryBlocks`)."""
        self._parts[number] = {block: x}
        self.blocks.put_new((self.name, number, block), x, lies)

    def lies(self, number: int, also: Callable[[ND], Any]) -> tuple[Parts | None, int | None]:
        """A value of one block, and how it lies if that has its memory to itself."""
        parts = self._parts.get(number)
        if parts is None or len(parts) != 1:
            return self.get(number), None
        (block,) = parts
        return parts, self.blocks.lies((self.name, number, block), also)

    def put_constant(self, number: int, parts: Parts) -> None:
        """A number that is part of the plan, or a value that is counted elsewhere as long as this one is here."""
        self._constants[number] = parts

    def put_file(self, number: int, parts: Parts) -> None:
        """A value that lies in a file and takes up no memory of this process."""
        self._files[number] = parts

    def drop(self, number: int) -> None:
        """Let go of a value, if it is there."""
        self._files.pop(number, None)
        parts = self._parts.pop(number, None)
        if parts is not None:
            name, blocks = self.name, self.blocks
            for block in parts:
                blocks.release((name, number, block))

    def clear(self) -> None:
        """Let go of all, also of what a step that failed has reserved."""
        name, blocks = self.name, self.blocks
        for held in (self._parts, self._reserved):
            for number, its in held.items():
                for block in its:
                    if (key := (name, number, block)) in blocks:
                        blocks.release(key)
            held.clear()
        self._constants.clear()
        self._files.clear()

    def pin(self, numbers: Iterable[int]) -> list[Key]:
        """Keep values while a step reads them; what to unpin after it."""
        keys = [(self.name, x, block) for x in numbers for block in self._parts.get(x, ())]
        for key in keys:
            self.blocks.pin(key)
        return keys

    def unpin(self, keys: Iterable[Key]) -> None:
        """Take back pins."""
        for key in keys:
            self.blocks.unpin(key)

    def __getitem__(self, number: int) -> Parts:
        found = self._parts.get(number)
        if found is not None:
            return found
        found = self._files.get(number)
        return self._constants[number] if found is None else found

    def __iter__(self) -> Iterator[int]:
        return iter((*self._parts, *self._files))

    def __len__(self) -> int:
        return len(self._parts) + len(self._files)
