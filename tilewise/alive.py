"""Objects that come and go quickly, without keeping them. In: objects. Out: those that are alive.

Nobody is called when one of them dies, as of a `weakref.WeakSet`, where that takes longer than everything else: what is
left of the dead goes when it has become as much as there is of the living.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

LEAST = 64  # entries that are looked through


class Alive(Generic[T]):
    """A set of weak references, in the order in which objects came, as far as nothing has their place again."""

    __slots__ = ("_refs", "_sweep_at")

    def __init__(self) -> None:
        self._refs: dict[int, weakref.ref[T]] = {}  # by id: an object's entry may be that of one that died before
        self._sweep_at = LEAST

    def add(self, x: T) -> None:
        """Note an object."""
        refs = self._refs
        refs[id(x)] = _ref(x)
        if len(refs) > self._sweep_at:
            self._sweep()

    def discard(self, x: T) -> None:
        """Forget an object, if it is here."""
        self._refs.pop(id(x), None)

    def __iter__(self) -> Iterator[T]:
        for ref in list(self._refs.values()):
            x = ref()
            if x is not None:
                yield x

    def _sweep(self) -> None:
        for key, ref in self._refs.copy().items():
            if ref() is None and (found := self._refs.pop(key, None)) is not ref and found is not None:
                self._refs.setdefault(key, found)  # of another object, which a thread has added meanwhile
        self._sweep_at = max(LEAST, 2 * len(self._refs))


_ref = weakref.ref
