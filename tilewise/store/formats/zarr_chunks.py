"""Chunks of Zarr folders, read without zarr. In: an array's codecs. Out: what fills memory from the file of a chunk.

For arrays in format 3 whose chunks are files of their own, plain or in Zstandard, with or without a checksum. Bytes go
from the file, or from the decompressor, into the memory that asks, where that is one whole chunk; of plain chunks only
what is asked for is read. What lies between is pooled memory: fresh pages take longer than the copy into them. Other
codecs, shards and other stores are for zarr itself.
"""

from __future__ import annotations

from math import prod
from typing import Any

import google_crc32c
import numpy as np
from numcodecs import zstd
from zarr import codecs

from tilewise.ir.order import strides_of
from tilewise.layout import Box
from tilewise.store import direct, files, pool
from tilewise.store.base import ND, within
from tilewise.store.formats.flat import read_runs

CRC_BYTES = 4
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Chunks:
    """How elements lie in the file of a chunk."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], compressed: bool, checked: bool) -> None:
        self.shape, self.dtype, self.compressed, self.checked = shape, dtype, compressed, checked
        self.nbytes = prod(shape) * dtype.itemsize
        self._strides = strides_of(shape, dtype.itemsize, None)
        self._all: Box = tuple((0, n) for n in shape)

    def read(self, handle: int, size: int, inner: Box, out: ND) -> None:
        """Fill an array with a box of a chunk, whose file has so many bytes. ValueError or RuntimeError: damaged."""
        if not self.compressed and size != self.nbytes + CRC_BYTES * self.checked:
            raise ValueError(f"a chunk has {size:,} bytes, not {self.nbytes + CRC_BYTES * self.checked:,}")
        same = out.dtype == self.dtype
        if same and not self.compressed and not self.checked:
            read_runs(self, handle, inner, self._strides, 0, out)
            return
        direct = same and inner == self._all and out.flags.c_contiguous
        chunk = out if direct else pool.empty(self.shape, self.dtype)
        (self._decompress if self.compressed else self._copy)(handle, size, _bytes(chunk))
        if not direct:
            out[...] = chunk[within(inner, self._all)]

    def fill(self, handle: int, at: int, block: ND) -> None:
        """Read bytes from a place of the file into an array without gaps."""
        if not direct.read_at(handle, files.bytes_of(block), at):
            raise ValueError("a chunk ends before its elements do")

    def _copy(self, handle: int, size: int, out: ND) -> None:
        """A plain chunk."""
        self.fill(handle, 0, out)
        if self.checked:
            end = np.empty(CRC_BYTES, np.uint8)
            self.fill(handle, self.nbytes, end)
            _check(out, end)

    def _decompress(self, handle: int, size: int, out: ND) -> None:
        body = pool.empty((size,), np.uint8)
        self.fill(handle, 0, body)
        if self.checked:
            _check(body[:-CRC_BYTES], body[-CRC_BYTES:])
            body = body[:-CRC_BYTES]
        if decompressed_bytes(bytes(body[:18])) == out.nbytes:
            zstd.decompress(body, out)
            return
        found = np.frombuffer(zstd.decompress(body), np.uint8)  # a stream, which does not say how long it is
        if found.nbytes != out.nbytes:
            raise ValueError(f"a chunk has {found.nbytes:,} bytes, not {out.nbytes:,}")
        out[...] = found


def chunks_of(array: Any) -> Chunks | None:
    """How the chunks of an array lie in their files; None where zarr has to read them."""
    metadata = array.metadata
    if metadata.zarr_format != 3 or array.shards is not None or array.dtype.hasobject or not metadata.codecs:
        return None
    first, *rest = metadata.codecs
    kinds = [type(codec) for codec in rest]
    compressed, checked = codecs.ZstdCodec in kinds, codecs.Crc32cCodec in kinds
    known = [codecs.ZstdCodec] * compressed + [codecs.Crc32cCodec] * checked
    if type(first) is not codecs.BytesCodec or kinds != known or not array.dtype.itemsize:
        return None
    big = first.endian is not None and getattr(first.endian, "value", first.endian) == "big"
    dtype = np.dtype(array.dtype).newbyteorder(">" if big else "<")
    return Chunks(tuple(array.chunks), dtype, compressed, checked)


def decompressed_bytes(head: bytes) -> int | None:
    """How many bytes a frame of Zstandard says that it holds; None if it does not. `head`: its first 18 bytes.

    >>> decompressed_bytes(bytes(zstd.compress(bytes(70_000)))[:18])
    70000
    """
    if head[:4] != ZSTD_MAGIC or len(head) < 6:
        return None
    flags = head[4]
    single, length = flags >> 5 & 1, (0, 2, 4, 8)[flags >> 6]
    if not length and not single:
        return None
    at = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
    field = head[at : at + (length or 1)]
    return int.from_bytes(field, "little") + (256 if length == 2 else 0) if len(field) == (length or 1) else None


def _bytes(block: ND) -> ND:
    return np.frombuffer(files.bytes_of(block), np.uint8)


def _check(body: ND, end: ND) -> None:
    """Raise if bytes do not match their checksum."""
    if google_crc32c.value(body) != int.from_bytes(end.tobytes(), "little"):
        raise ValueError("a chunk does not match its checksum")
