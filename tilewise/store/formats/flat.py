"""Elements that lie in a file one after the other: raw binary, .npy, members of .npz, contiguous HDF5 datasets.

In: a path, where the elements begin, a type. Out: a Source that reads boxes, a Sink that any process may write to.
Every read opens the file, so that threads and workers share nothing, and looks whether it is still the one that was
opened. Reads go into the memory that asks for them: nothing is mapped, so that a file cut short is an error, not a
signal, and no more memory is used than was asked for.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np

from tilewise.errors import StoreError, message
from tilewise.ir.order import Order, strides_of
from tilewise.layout import Box
from tilewise.store import direct, files
from tilewise.store.base import ND, Source, check_box
from tilewise.store.formats.file_sink import FileSink, region_lengths

CHUNK_BYTES = 8 << 20  # of a read: large enough that the disk, not the call, decides how long it takes
COPIED_BYTES = 256 << 10  # at a time, of what lies in memory otherwise than in the file
GAP_BYTES = 64 << 10  # runs in a file that lie closer than this are read together with what is between them


def row_chunks(
    shape: tuple[int, ...], itemsize: int, order: Order = None, nbytes: int = CHUNK_BYTES
) -> tuple[int, ...]:
    """Chunks of about so many bytes that lie in one piece, or nearly so: cut along the slowest axes only.

    >>> row_chunks((1000, 1000), 8), row_chunks((2, 3, 1 << 20), 8), row_chunks((), 8)
    ((1000, 1000), (1, 1, 1048576), ())
    """
    chunks = [max(n, 1) for n in shape]
    for axis in order or range(len(shape)):
        whole = prod(chunks) * itemsize
        if whole <= nbytes:
            break
        chunks[axis] = max(1, chunks[axis] * nbytes // whole)
    return tuple(chunks)


class FlatSource(Source):
    """Elements in a file, without gaps, in some order of their axes; `offset` is where the first of them lies."""

    whole_chunks = False

    def __init__(
        self,
        path: Any,
        shape: tuple[int, ...],
        dtype: Any,
        offset: int = 0,
        order: Order = None,
        stamp: files.Stamp | None = None,
    ) -> None:
        self.path = files.full_path(path)
        self.shape, self.dtype, self.offset, self.order = tuple(shape), np.dtype(dtype), offset, order
        self.stamp = files.stamp(self.path) if stamp is None else stamp
        self.chunks = row_chunks(self.shape, self.dtype.itemsize, order)
        self._strides = strides_of(self.shape, self.dtype.itemsize, order)
        refuse_objects(self.path, self.dtype, reading=True)
        if (have := self.stamp.size - offset) < self.nbytes:
            raise StoreError(
                message(
                    f"{self.path} is too short for {self.shape} of {self.dtype}",
                    got=f"{max(have, 0):,} of {self.nbytes:,} bytes",
                    cure="It was cut off, or its shape or dtype is another",
                )
            )

    def fingerprint(self) -> Hashable:
        """The file as it was when it was opened, and which part of it."""
        return "file", self.path, self.stamp, self.offset, self.shape, self.dtype.str, self.order

    def reads(self, path: str) -> bool:
        """Whether this is its file."""
        return files.same(path, self.path)

    def read(self, box: Box, out: ND | None = None) -> ND:
        """The elements of a box: in one read if they lie together, else in one per run of rows that nearly do."""
        check_box(box, self.shape, self.dtype, out)
        if out is None:
            out = np.empty([hi - lo for lo, hi in box], self.dtype)
        with files.explained(self.path, "read"):
            handle = os.open(self.path, os.O_RDONLY)
            try:
                if out.size:
                    self._read(handle, box, out)
                if files.Stamp.of(os.fstat(handle)) != self.stamp:
                    raise files.changed(self.path)
            finally:
                os.close(handle)
        return out

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The axes as they lie in the file, from the slowest to the fastest."""
        return self.order or tuple(range(len(self.shape)))

    def _read(self, handle: int, box: Box, out: ND) -> None:
        slow = tuple(box[a] for a in self.axes)
        strides = tuple(self._strides[a] for a in self.axes)
        read_runs(self, handle, slow, strides, self.offset, out.transpose(self.axes))

    def fill(self, handle: int, at: int, block: ND) -> None:
        """Read bytes from a place of the file into an array without gaps."""
        assert block.flags.c_contiguous, "bytes of a copy would be filled"
        if direct.read_at(handle, files.bytes_of(block), at):
            return
        if os.fstat(handle).st_size != self.stamp.size:
            raise files.changed(self.path)
        raise StoreError(message(f"{self.path} ends before its elements do", cure="It was cut off; restore it"))

    def __reduce__(self) -> Any:
        return type(self), (self.path, self.shape, self.dtype, self.offset, self.order, self.stamp)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path} {self.shape} of {self.dtype}>"


class Bytes(Protocol):
    """What fills memory from a place of an open file, or says what is wrong with the file."""

    dtype: np.dtype[Any]

    def fill(self, handle: int, at: int, block: ND) -> None:
        """Read bytes into an array without gaps."""


def read_runs(source: Bytes, handle: int, box: Box, strides: tuple[int, ...], at: int, out: ND) -> None:
    """Read a box, axes from slowest to fastest, into an array of its shape."""
    itemsize = source.dtype.itemsize
    start = at + sum(lo * s for (lo, _), s in zip(box, strides, strict=True))
    span = sum((hi - lo - 1) * s for (lo, hi), s in zip(box, strides, strict=True)) + itemsize
    wanted = out.size * itemsize
    if span == wanted:  # in one piece
        if out.flags.c_contiguous:
            source.fill(handle, start, out)
        elif wanted > COPIED_BYTES and out.shape[0] > 1:  # some rows at a time: copies take memory
            for low, high in _portions(out):
                inside = (box[0][0] + low, box[0][0] + high), *box[1:]
                read_runs(source, handle, inside, strides, at, out[low:high])
        elif wanted > COPIED_BYTES and out.ndim > 1:
            read_runs(source, handle, box[1:], strides[1:], at + box[0][0] * strides[0], out[0])
        else:
            together = np.empty(out.shape, out.dtype)
            source.fill(handle, start, together)
            out[...] = together
    elif span <= 2 * wanted or span - wanted <= GAP_BYTES or out.ndim == 1:
        memory = np.empty(span, np.uint8)
        source.fill(handle, start, memory)
        out[...] = np.ndarray(out.shape, source.dtype, memory, strides=strides)
    elif (rows := _rows_together(out.shape[0], wanted, span, strides[0])) > 1:
        first, last = box[0]
        for low in range(first, last, rows):
            high = min(low + rows, last)
            part = out[low - first : high - first]
            read_runs(source, handle, ((low, high), *box[1:]), strides, at, part)
    else:
        for k in range(out.shape[0]):
            low = box[0][0] + k
            read_runs(source, handle, box[1:], strides[1:], at + low * strides[0], out[k])


def _portions(block: ND) -> Iterator[tuple[int, int]]:
    """Rows that are copied at a time, where a block does not lie as the file does."""
    rows = max(COPIED_BYTES * block.shape[0] // block.nbytes, 1)
    for low in range(0, block.shape[0], rows):
        yield low, min(low + rows, block.shape[0])


def _rows_together(rows: int, wanted: int, span: int, stride: int) -> int:
    """How many rows of a box can be read at once, with what is between their runs.

    >>> _rows_together(1000, 8_000, 999 * 200 + 8, 200)
    342
    """
    row = wanted // rows
    inside = span - (rows - 1) * stride - row  # gaps within a row
    return 1 + (GAP_BYTES - inside) // (stride - row) if inside <= GAP_BYTES and stride > row else 1


def refuse_objects(path: str, dtype: np.dtype[Any], reading: bool = False) -> None:
    """Raise where elements are Python objects: no file of ours holds pickles, and none is unpickled."""
    if dtype.hasobject and reading:
        raise StoreError(
            message(
                f"{path} holds Python objects, which are never unpickled",
                got=f"dtype {dtype}",
                cure="If you trust it, read it with the library that wrote it, as np.load(path, allow_pickle=True)"
                ", and save it with a dtype of numbers",
            )
        )
    if dtype.hasobject:
        raise StoreError(
            message(
                f"{path} would hold Python objects, which are never pickled",
                got=f"dtype {dtype}",
                cure="Give the elements a dtype of numbers or of strings of one length: x.astype(...)",
            )
        )


class FlatSink(FileSink):
    """Elements written into a file under another name; `commit` gives it the name. `head` comes before the elements."""

    opened_by_workers = True
    _large = False  # and new: nobody has it in the system's cache

    def __init__(
        self,
        path: Any,
        shape: tuple[int, ...],
        dtype: Any,
        order: Order = None,
        head: bytes = b"",
        overwrite: bool = False,
    ) -> None:
        name, kind = files.full_path(path), np.dtype(dtype)
        super().__init__(name, tuple(shape), kind, row_chunks(tuple(shape), kind.itemsize, order), None)
        self.overwrite, self.offset = overwrite, len(head)
        self._large = prod(self.shape) * kind.itemsize >= direct.LARGE_BYTES
        self.order, self._strides = order, strides_of(self.shape, kind.itemsize, order)
        refuse_objects(name, kind)
        self._at = files.beside(name)
        with files.explained(name, "write"):
            files.check_free(name, overwrite)
            handle = os.open(self._at, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                os.pwrite(handle, head, 0)
                os.ftruncate(handle, self.offset + prod(self.shape) * kind.itemsize)
            except BaseException:
                files.remove(self._at)
                raise
            finally:
                os.close(handle)

    def run_bytes(self, box: Box) -> int:
        """Bytes that lie one after the other in the file.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, FlatSink(folder + "/x", (6, 10), "f8") as sink:
        ...     sink.run_bytes(((0, 6), (2, 4))), sink.run_bytes(((2, 4), (0, 10)))
        (16, 160)
        """
        run = self.dtype.itemsize
        for axis in reversed(self.order or range(len(self.shape))):
            low, high = box[axis]
            run *= high - low
            if high - low < self.shape[axis]:
                break
        return run

    def put(self, box: Box, block: ND) -> None:
        """Write a block, in as many runs as it has in the file."""
        axes = self.order or tuple(range(len(self._strides)))
        at = self.offset + sum(lo * s for (lo, _), s in zip(box, self._strides, strict=True))
        handle = os.open(self._at, os.O_WRONLY)
        last = sum((n - 1) * s for n, s in zip(block.shape, self._strides, strict=True))
        together, rows = last + block.dtype.itemsize == block.nbytes, block.transpose(axes)
        try:
            if together and rows.flags.c_contiguous and self._large:
                direct.write_at(handle, files.bytes_of(rows), at)
                return
            write_runs(handle, at, [self._strides[a] for a in axes], rows)
            if together:
                files.start_writing(handle, at, block.nbytes)
        finally:
            os.close(handle)

    def finish(self) -> None:
        """Give the file its name."""
        files.check_free(self.path, self.overwrite)
        files.replace_file(self._at, self.path)

    def discard(self) -> None:
        """Remove the file."""
        files.remove(self._at)


class FlatRegion(FlatSink):
    """A part of an array that lies in a file already, written in place."""

    def __init__(self, into: FlatSource, region: Box) -> None:
        lengths = region_lengths(into.path, region, into.shape)
        FileSink.__init__(self, into.path, lengths, into.dtype, into.chunks, region)
        self.offset, self.order, self._at = into.offset, into.order, into.path
        self._strides = strides_of(into.shape, into.dtype.itemsize, into.order)
        with files.explained(into.path, "write"):
            os.close(os.open(into.path, os.O_WRONLY))  # whether that is allowed

    def finish(self) -> None:
        """What was written is on the disk."""
        files.flush(self.path)

    def discard(self) -> None:
        """What was written stays: it took the place of what was there."""


def write_runs(handle: int, at: int, strides: Any, block: ND) -> None:
    """Write an array to a place of a file, its axes from slowest to fastest at these distances."""
    flat = strides_of(block.shape, block.dtype.itemsize, None)
    if all(s == f or n == 1 for s, f, n in zip(strides, flat, block.shape, strict=True)):
        if block.flags.c_contiguous or block.nbytes <= COPIED_BYTES:
            files.write_at(handle, files.bytes_of(block), at)
            return
        if block.shape[0] > 1:
            for low, high in _portions(block):
                write_runs(handle, at + low * strides[0], strides, block[low:high])
            return
    for k in range(block.shape[0]):
        write_runs(handle, at + k * strides[0], strides[1:], block[k])
