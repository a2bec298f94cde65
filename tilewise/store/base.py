"""The seams of storage. Source: what a leaf of a graph is read from. Sink: what a result is written to. BlockStore:
where a worker keeps its blocks. All three take boxes or blocks that others have chosen, and decide nothing themselves.

Implementations: arrays.py (the driver's arrays), source_slice.py (slices of others), formats (files),
blocks.py (memory), engine/cluster.py (values that workers hold).
tests/store/test_conformance.py runs on every one of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from itertools import product
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import numpy as np

from tilewise import events
from tilewise.errors import message
from tilewise.ir.order import Order
from tilewise.later import later
from tilewise.layout import Box, Held, Layout, OnDriver, Stored, box_size, position
from tilewise.store import pool

futures = later("concurrent.futures")
ND = np.ndarray[Any, Any]
READERS = 4  # threads that read one array: disks are faster when asked for several things at once
THREADED_BYTES = 16 << 20  # of an array that is read by several


class BoxError(ValueError):
    """A box that is not in the array, or memory that does not fit it."""


class BlockError(LookupError):
    """A block asked for that is not there, given twice, or released while it is in use."""


class Source(ABC):
    """An array that exists before a program runs, read by boxes. Its elements never change: the fingerprint names them.

    `order` is the memory order that a copy of it gets (None: C). `chunks` are the lengths of a chunk along each axis:
    reads are cut at multiples of them. With `whole_chunks`, a part of a chunk costs as much to read as all of it. One
    that `opened_by_workers` pickles small (a path, not the data), and whoever unpickles it reads the same elements.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Order = None
    chunks: tuple[int, ...]
    opened_by_workers: bool = True
    on_workers: bool = False  # its blocks are where they are made: slices of them are taken there
    whole_chunks: bool = True

    @abstractmethod
    def fingerprint(self) -> Hashable:
        """The identity of the elements: equal for equal elements, in every process."""

    @abstractmethod
    def read(self, box: Box, out: ND | None = None) -> ND:
        """The elements of a box: written to `out` if it is given, else in an array that the caller only reads."""

    def parts(self, box: Box) -> Iterator[Box]:
        """A box in parts, of which each lies in one chunk: what `read` is asked for."""
        return cut_at_chunks(box, self.chunks)

    def reads(self, path: str) -> bool:
        """Whether its elements lie in the file or folder of this path: they are gone when it is written anew."""
        return False

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return box_size(tuple((0, n) for n in self.shape)) * self.dtype.itemsize

    def layout_on(self, cluster: object) -> Layout:
        """How it lies for the workers of a cluster."""
        return Stored() if self.opened_by_workers else OnDriver()

    def copies_on(self, cluster: object) -> list[Any] | None:
        """The list of its copies that a cluster holds, to be added to; None: who has the leaf of it keeps them."""
        return None

    def whole(self) -> ND:
        """All elements in a new array here, read chunk by chunk."""
        began = perf_counter()
        out = pool.empty(self.shape, self.dtype, self.order)
        read_by_threads(self, tuple((0, n) for n in self.shape), out)
        if events.listeners:
            events.emit(events.Event("read", type(self).__name__, began, perf_counter(), self.nbytes))
        return out


def read_box(source: Source, box: Box, out: ND) -> None:
    """Read a box into an array of its shape, cut where chunks end: no read holds more than one chunk."""
    for part in source.parts(box):
        source.read(part, out=out[within(part, box)])


def read_by_threads(source: Source, box: Box, out: ND) -> None:
    """The same for a large box, several chunks at a time."""
    parts = list(source.parts(box)) if out.nbytes >= THREADED_BYTES and source.opened_by_workers else []
    if len(parts) < 2:
        read_box(source, box, out)
        return
    with futures.ThreadPoolExecutor(min(READERS, len(parts))) as readers:
        for _ in readers.map(lambda part: source.read(part, out=out[within(part, box)]), parts):
            pass


def cut_at_chunks(box: Box, chunks: tuple[int, ...]) -> Iterator[Box]:
    """The parts of a box that lie in one chunk each.

    >>> list(cut_at_chunks(((1, 5),), (3,)))
    [((1, 3),), ((3, 5),)]
    """
    axes = []
    for (low, high), step in zip(box, chunks, strict=True):
        ends = [*range((low // step + 1) * step, high, step), high]
        axes.append([(a, b) for a, b in zip([low, *ends[:-1]], ends, strict=True) if a < b])
    yield from product(*axes)


def within(box: Box, held: Held) -> tuple[Any, ...]:
    """The index of a box in an array that holds other indices; a view also of an array without axes."""
    return (*[position(s, part) for part, s in zip(box, held, strict=True)], ...)


def check_box(box: Box, shape: tuple[int, ...], dtype: np.dtype[Any], block: ND | None) -> None:
    """Raise if a box is not in an array of this shape, or a block does not hold just the box."""
    inside = len(box) == len(shape) and all(0 <= lo <= hi <= n for (lo, hi), n in zip(box, shape, strict=True))
    if not inside:
        raise BoxError(message("a box lies within its array", got=f"{box} of {shape}"))
    want = tuple(hi - lo for lo, hi in box)
    if block is not None and (block.shape != want or block.dtype != dtype):
        raise BoxError(
            message(f"the box {box} is {want} of {dtype}", got=f"an array of {block.shape} of {block.dtype}")
        )


class Sink(ABC):
    """Where an array is written, box by box. Nothing is seen of it before `commit`; after `abort` nothing ever is.

    As a context manager it aborts what was not committed. A sink that `opened_by_workers` pickles small, and whoever
    unpickles it writes to the same place; only the one that was made first commits or aborts. A chunk of one with
    `whole_chunks` is written by one call: two that share a chunk could undo each other's work.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    opened_by_workers: bool = False
    whole_chunks: bool = False

    @abstractmethod
    def write(self, box: Box, block: ND) -> None:
        """The elements of a box, each written once."""

    def parts(self, box: Box) -> Iterator[Box]:
        """A box in parts, of which each lies in one chunk."""
        return cut_at_chunks(box, self.chunks)

    def chunk_box(self, part: Box) -> Box:
        """All of the chunk that a part lies in."""
        axes = zip(part, self.chunks, self.shape, strict=True)
        return tuple((lo // c * c, min(lo // c * c + c, n)) for (lo, _), c, n in axes)

    def run_bytes(self, box: Box) -> int:
        """Bytes of a box that are written by one call."""
        return box_size(box) * self.dtype.itemsize

    def count(self, elements: int) -> None:
        """So many elements were written by copies of this sink in other processes."""
        raise NotImplementedError

    @abstractmethod
    def commit(self) -> Any:
        """Make all of it seen at once; raises if an element is missing. What was made, if it is a value."""

    @abstractmethod
    def abort(self) -> None:
        """Leave no trace; does nothing after a commit."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


class BlockStore(ABC):
    """Blocks by key, within a budget of bytes (None: no limit). It decides nothing: what to spill, restore or prefetch
    are steps of a plan. A key is reserved before its block is made, so that a refusal comes before any work.

    Blocks that share memory count once: a view of a block costs nothing.
    """

    budget: int | None
    reserved_bytes: int  # of blocks, and set aside for those to come
    peak_bytes: int  # the most that were reserved at once since `reset_peak`

    @abstractmethod
    def reserve(self, key: Hashable, nbytes: int) -> None:
        """Set bytes aside for a block to come; MemoryBudgetError if there are not so many left."""

    @abstractmethod
    def put(self, key: Hashable, block: ND) -> None:
        """The block for a key; what was reserved for it and is not needed is free again."""

    @abstractmethod
    def get(self, key: Hashable) -> ND:
        """The block of a key."""

    @abstractmethod
    def pin(self, key: Hashable) -> None:
        """Keep a block from being released; pins are counted."""

    @abstractmethod
    def unpin(self, key: Hashable) -> None:
        """Take back one pin."""

    @abstractmethod
    def release(self, key: Hashable) -> None:
        """Let go of a block, or of what was reserved for one."""

    @abstractmethod
    def __contains__(self, key: Hashable) -> bool:
        """Whether there is a block of a key, or one is reserved."""

    @abstractmethod
    def reset_peak(self) -> None:
        """Count the peak from what is reserved now."""
