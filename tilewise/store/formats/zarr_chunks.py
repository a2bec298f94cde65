"""Chunks of Zarr folders that are not compressed, read without zarr. In: an array's codecs. Out: a decoder.

For arrays in format 3 whose chunks are files of their own, of plain bytes with or without a checksum: about half of
zarr's time (compressed ones took no less). Other codecs, shards and other stores are for zarr itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import google_crc32c
import numpy as np
from zarr import codecs

from tilewise.store.base import ND

Step = Callable[[Any], Any]
CRC_BYTES = 4


def decoder(array: Any) -> Callable[[Any], ND] | None:
    """What makes a chunk of the bytes of its file; None where zarr has to."""
    metadata = array.metadata
    if metadata.zarr_format != 3 or array.shards is not None or array.dtype.hasobject or not metadata.codecs:
        return None
    first, *rest = metadata.codecs
    steps = [_step(codec) for codec in reversed(rest)]
    if type(first) is not codecs.BytesCodec or None in steps:
        return None
    big = first.endian is not None and getattr(first.endian, "value", first.endian) == "big"
    dtype = np.dtype(array.dtype).newbyteorder(">" if big else "<")
    return partial(_decode, [s for s in steps if s is not None], dtype, tuple(array.chunks))


def _step(codec: Any) -> Step | None:
    return _checked if type(codec) is codecs.Crc32cCodec else None


def _checked(data: Any) -> bytes:
    """The bytes before a checksum, which they match."""
    body = bytes(memoryview(data)[:-CRC_BYTES])
    if google_crc32c.value(body) != int.from_bytes(memoryview(data)[-CRC_BYTES:], "little"):
        raise ValueError("a chunk does not match its checksum")
    return body


def _decode(steps: list[Step], dtype: np.dtype[Any], shape: tuple[int, ...], data: Any) -> ND:
    for step in steps:
        data = step(data)
    found: ND = np.frombuffer(data, dtype)
    return found.reshape(shape)
