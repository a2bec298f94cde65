"""What sinks that write to files share. In: a type, a region of an existing store or all of a new one. Out: a Sink.

Which elements have been written is counted; how they are written is for `put`, `finish` and `discard` of each kind.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from tilewise.errors import StoreError, message
from tilewise.layout import Box, box_size
from tilewise.store import files
from tilewise.store.base import ND, BoxError, Sink, check_box, cut_at_chunks

_counting = Lock()  # several threads write to one sink


class FileSink(Sink):
    """A sink at a path. `region` is where it lies in a store that exists already (None: it makes the store)."""

    def __init__(
        self, path: str, shape: tuple[int, ...], dtype: np.dtype[Any], chunks: tuple[int, ...], region: Box | None
    ) -> None:
        self.path, self.shape, self.dtype, self.chunks = path, shape, dtype, chunks
        self.starts = None if region is None else tuple(lo for lo, _ in region)
        self._missing = prod(shape)
        self._open = True

    @abstractmethod
    def put(self, box: Box, block: ND) -> None:
        """Write a block to a box of the store."""

    @abstractmethod
    def finish(self) -> None:
        """Make all that was written durable, and seen."""

    @abstractmethod
    def discard(self) -> None:
        """Remove what was written."""

    def write(self, box: Box, block: ND) -> None:
        """Write a block where it belongs."""
        self._check_open()
        check_box(box, self.shape, self.dtype, block)
        if block.size:
            with files.explained(self.path, "write"):
                self.put(self._there(box), block)
        self.count(box_size(box))

    def parts(self, box: Box) -> Iterator[Box]:
        """A box, cut where chunks of the store end."""
        for part in cut_at_chunks(self._there(box), self.chunks):
            yield (
                part
                if self.starts is None
                else tuple((lo - s, hi - s) for (lo, hi), s in zip(part, self.starts, strict=True))
            )

    def chunk_box(self, part: Box) -> Box:
        """All of the chunk that a part lies in, as far as it is written."""
        found = []
        for (lo, _), c, n, s in zip(part, self.chunks, self.shape, self.starts or (0,) * len(part), strict=True):
            first = (lo + s) // c * c - s
            found.append((max(first, 0), min(first + c, n)))
        return tuple(found)

    def count(self, elements: int) -> None:
        """So many elements were written in other processes."""
        with _counting:
            self._missing -= elements

    def commit(self) -> str:
        """Make it seen; its path."""
        self._check_open()
        if self._missing:
            raise BoxError(
                message(f"every element of {self.shape} is written once", got=f"{self._missing:,} too few writes")
            )
        with files.explained(self.path, "write"):
            self.finish()
        self._open = False
        return self.path

    def abort(self) -> None:
        """Leave no trace (of a region: what was written is)."""
        if self._open:
            self._open = False
            self.discard()

    def _there(self, box: Box) -> Box:
        if self.starts is None:
            return box
        return tuple((lo + s, hi + s) for (lo, hi), s in zip(box, self.starts, strict=True))

    def _check_open(self) -> None:
        if not self._open:
            raise BoxError(message("a sink that was committed or aborted takes no more", cure="Make a new one"))


def region_lengths(path: str, region: Box, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The lengths of a region of an array; raises if it is not in it."""
    if len(region) != len(shape) or not all(0 <= lo <= hi <= n for (lo, hi), n in zip(region, shape, strict=True)):
        raise StoreError(message(f"a region lies within its store; {path} has the shape {shape}", got=str(region)))
    return tuple(hi - lo for lo, hi in region)
