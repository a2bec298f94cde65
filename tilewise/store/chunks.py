"""Chunks of stores: whether they fit an array, and how many of them are worth a read. In: lengths. Out: lengths."""

from __future__ import annotations

from math import prod
from typing import Any

from tilewise.errors import StoreError, message

ZARR_CHUNK_BYTES = 4 << 20  # of chunks that we choose
READ_BYTES = 4 << 20  # of a read: chunks that are smaller are read several at a time


def grown(unit: tuple[int, ...], shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Multiples of chunks that are worth a read: as many as make some megabytes, along the last axes first.

    >>> grown((10, 100), (1000, 1000), 8), grown((1000, 1000), (4000, 1000), 8)
    ((520, 1000), (1000, 1000))
    """
    chunks = list(unit)
    for axis in reversed(range(len(unit))):
        times = max(1, min(READ_BYTES // max(prod(chunks) * itemsize, 1), -(-shape[axis] // unit[axis])))
        chunks[axis] = min(unit[axis] * times, max(shape[axis], 1))
        if chunks[axis] < shape[axis]:
            break
    return tuple(chunks)


def check_chunks(path: str, shape: Any, chunks: Any, shards: Any = None) -> None:
    """Raise if chunks or shards do not fit an array, or each other."""
    for name, lengths in (("chunks", chunks), ("shards", shards)):
        if lengths is None:
            continue
        if len(lengths) != len(shape) or not all(isinstance(c, int) and c > 0 for c in lengths):
            raise StoreError(
                message(f"{path}: {name} have a length of at least 1 for each of {len(shape)} axes", got=str(lengths))
            )
    if shards is not None and any(s % c for s, c in zip(shards, chunks, strict=True)):
        raise StoreError(
            message(f"{path}: shards are whole numbers of chunks", got=f"shards={shards}, chunks={chunks}")
        )
