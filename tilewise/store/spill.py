"""Values of a plan on disk. In: blocks, by boxes. Out: a Source of them. The plan says what is spilled, and when.

A spill file has no name: whatever happens to the process, the system takes it back.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from itertools import count, pairwise
from math import prod
from typing import Any

import numpy as np

from tilewise.errors import StoreError, message
from tilewise.ir.order import Order, by_strides, strides_of
from tilewise.layout import Box, Shard, box_size, overlap, with_interval
from tilewise.store import files
from tilewise.store.base import ND, Source, check_box, within
from tilewise.store.formats.flat import FlatSource, read_runs, row_chunks, write_runs

_numbers = count(1)


class Spilled(FlatSource):
    """An array in a file of this process, written by boxes and then read. It goes with the last reference to it.

    Its elements lie in the file as in memory, or block after block, where it is written by blocks that are cut along
    another axis than the slowest: one piece each, instead of a short run for every row.
    """

    opened_by_workers = False

    def __init__(self, shape: tuple[int, ...], dtype: Any, order: Order = None, cut: Shard | None = None) -> None:
        self.shape, self.dtype, self.order, self.offset = tuple(shape), np.dtype(dtype), order, 0
        self.chunks = row_chunks(self.shape, self.dtype.itemsize, order)
        slowest = self.axes[0] if self.axes else 0
        self._cut = slowest if cut is None else cut.axis
        self._edges = [0, *self.shape[slowest : slowest + 1]]
        if cut is not None and cut.axis != slowest:
            self._edges = sorted({*cut.cuts})
        self._number = next(_numbers)
        self.path = folder()
        with files.explained(self.path, "write"):
            self._file = nameless_file()
            os.ftruncate(self._file.fileno(), prod(self.shape) * self.dtype.itemsize)
            self.stamp = files.Stamp.of(os.fstat(self._file.fileno()))
        weakref.finalize(self, self._file.close)

    def fingerprint(self) -> Hashable:
        """Which one of this process: nobody else has it."""
        return "spilled", os.getpid(), self._number

    def read(self, box: Box, out: ND | None = None) -> ND:
        """The elements of a box."""
        check_box(box, self.shape, self.dtype, out)
        if out is None:
            out = np.empty([hi - lo for lo, hi in box], self.dtype)
        if out.size:
            with files.explained(self.path, "read"):
                for at, part, inner, strides in self._blocks(box):
                    read_runs(
                        self, self._file.fileno(), inner, strides, at, out[within(part, box)].transpose(self.axes)
                    )
        return out

    def write(self, box: Box, block: ND) -> None:
        """Keep the elements of a box."""
        check_box(box, self.shape, self.dtype, block)
        if block.size:
            with files.explained(self.path, "write"):
                for at, part, inner, strides in self._blocks(box):
                    start = at + sum(lo * s for (lo, _), s in zip(inner, strides, strict=True))
                    write_runs(self._file.fileno(), start, strides, block[within(part, box)].transpose(self.axes))

    def _blocks(self, box: Box) -> Iterator[tuple[int, Box, Box, tuple[int, ...]]]:
        """The blocks that a box meets: where each begins in the file, the part of the box in it, and (axes from the
        slowest to the fastest) the same within the block, and distances there."""
        if not self.shape:
            yield 0, box, (), ()
            return
        axis, size, row = self._cut, self.dtype.itemsize, self.nbytes // self.shape[self._cut]
        first = max(bisect_right(self._edges, box[axis][0]) - 1, 0)
        for low, high in pairwise(self._edges[first:]):
            if low >= box[axis][1]:
                break
            both = max(low, box[axis][0]), min(high, box[axis][1])
            inner = with_interval(box, axis, (both[0] - low, both[1] - low))
            strides = strides_of((*self.shape[:axis], high - low, *self.shape[axis + 1 :]), size, self.order)
            ways = tuple([strides[a] for a in self.axes])
            yield low * row, with_interval(box, axis, both), tuple([inner[a] for a in self.axes]), ways

    def mapped(self) -> ND:
        """The file as an array: its pages are the system's, not memory of this process."""
        if not self.nbytes:
            return np.empty(self.shape, self.dtype)
        assert len(self._edges) == 2, "blocks do not make one array"
        memory = mmap.mmap(self._file.fileno(), self.nbytes)
        return np.ndarray(self.shape, self.dtype, memory, 0, strides_of(self.shape, self.dtype.itemsize, self.order))

    def __reduce__(self) -> Any:
        raise TypeError("a spill file is of one process")


class HeldParts(Source):
    """A value of which this worker holds some parts. What others send of the rest goes to a spill file."""

    opened_by_workers = False
    whole_chunks = False

    def __init__(self, parts: Sequence[ND], boxes: Sequence[Box], shape: tuple[int, ...], order: Order = None) -> None:
        self.held = list(zip(parts, boxes, strict=True))
        self.shape, self.dtype, self.order = shape, parts[0].dtype, order
        self.chunks = tuple(max(n, 1) for n in shape)
        self._rest: Spilled | None = None

    def fingerprint(self) -> Hashable:
        """Which one of this process: nobody else has it."""
        return "held", os.getpid(), id(self)

    def read(self, box: Box, out: ND | None = None) -> ND:
        """The elements of a box: of the parts here, and of what was sent."""
        check_box(box, self.shape, self.dtype, out)
        if out is None:
            out = np.empty([hi - lo for lo, hi in box], self.dtype)
        here = [(part, own, overlap(box, own)) for part, own in self.held]
        if sum(box_size(both) for _, _, both in here) < box_size(box):
            assert self._rest is not None, "nothing was sent of it"
            self._rest.read(box, out)
        for part, own, both in here:
            if box_size(both):
                out[within(both, box)] = part[within(both, own)]
        return out

    def write(self, box: Box, block: ND) -> None:
        """What another worker sent."""
        self._rest = self._rest or Spilled(self.shape, self.dtype, self.order)
        self._rest.write(box, block)


def in_file(x: ND) -> ND:
    """An array that lies in a spill file, in the same order of axes."""
    spilled = Spilled(x.shape, x.dtype, by_strides(x.shape, x.strides))
    spilled.write(tuple((0, n) for n in x.shape), x)
    return spilled.mapped()


def nameless_file() -> Any:
    """A new file that goes when it is closed, or the process ends in whatever way."""
    return tempfile.TemporaryFile(dir=folder(), prefix="tilewise-spill-", buffering=0)


def folder() -> str:
    """Where spill files are: the system's folder for such (TMPDIR)."""
    return tempfile.gettempdir()


def check_room(nbytes: int) -> None:
    """Raise if so many bytes cannot be spilled."""
    free = shutil.disk_usage(folder()).free
    if nbytes > free:
        raise StoreError(
            message(
                f"{nbytes:,} bytes would be spilled to {folder()}",
                got=f"{free:,} bytes free",
                cure="Free some space, raise memory=, or set TMPDIR to a larger disk",
            )
        )
