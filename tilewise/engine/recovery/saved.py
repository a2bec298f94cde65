"""Blocks that workers hold, on disk as well. In: blocks by worker and key. Out: files, and the blocks again.

A session with a checkpoint writes them every now and then, each process those of its own workers, as they lie. Only the
driver that let them be written knows which file has what, so there is no manifest; they go with its session, or when
the next checkpoint is written to their folder. Each file has checksums, and nothing is pickled.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
from collections.abc import Collection, Mapping
from typing import Any
from zlib import crc32

import numpy as np
from numpy.lib import format as npy_format

from tilewise.ops.traits.collectives import Parts
from tilewise.store import checkpoint, files
from tilewise.store.checkpoint_interval import Due

ND = np.ndarray[Any, Any]
HEAD = struct.Struct("<8sIQ")  # what it is, the checksum and the length of the table
MAGIC = b"tilewise"


class Saved:
    """What the driver knows of a session's files: which keys are in which."""

    def __init__(self, folder: str, due: Due) -> None:
        self.folder = folder
        self.due = due
        self.keys: dict[int, str] = {}  # the token in the names of a key's files
        self.workers: dict[str, tuple[int, ...]] = {}  # whose files there are, by token

    def new(self, workers: Collection[int]) -> str:
        """A token for files to be written."""
        token = secrets.token_hex(6)
        self.workers[token] = tuple(workers)
        return token

    def path(self, token: str, worker: int) -> str:
        """The file of a worker."""
        return os.path.join(self.folder, f"held{worker}-{token}{checkpoint.SUFFIX}")

    def paths(self) -> set[str]:
        """All files in use."""
        return {self.path(token, w) for token, workers in self.workers.items() for w in workers}

    def drop(self, keys: Collection[int]) -> None:
        """Nobody needs these keys: files that have no others go."""
        for key in keys:
            self.keys.pop(key, None)
        used = set(self.keys.values())
        for token in [t for t in self.workers if t not in used]:
            for w in self.workers.pop(token):
                files.remove(self.path(token, w))


def write_blocks(path: str, values: Mapping[int, Parts]) -> int:
    """Write the blocks of a worker by key, and bring them to the disk: how many bytes."""
    table: list[list[Any]] = []
    blocks: list[memoryview] = []
    at = 0
    for key, parts in values.items():
        for block, x in parts.items():
            axes = sorted(range(x.ndim), key=lambda axis, x=x: -abs(x.strides[axis]))  # type: ignore[misc]
            data = files.bytes_of(x.transpose(axes))
            kind = npy_format.dtype_to_descr(x.dtype)
            table.append([key, block, kind, [x.shape[a] for a in axes], axes, at, len(data), crc32(data)])
            blocks.append(data)
            at += len(data)
    text = json.dumps(table).encode()
    with files.explained(path, "write"):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            files.write_at(handle, memoryview(HEAD.pack(MAGIC, crc32(text), len(text)) + text), 0)
            begin = HEAD.size + len(text)
            for row, data in zip(table, blocks, strict=True):
                files.write_at(handle, data, begin + row[5])
            os.fsync(handle)
        finally:
            os.close(handle)
    return at


def read_blocks(path: str, keys: Collection[int]) -> dict[int, Parts]:
    """The blocks under some keys, checked."""
    found: dict[int, Parts] = {}
    with files.explained(path, "read"):
        handle = os.open(path, os.O_RDONLY)
        try:
            table, begin = _table(path, handle)
            for key, block, kind, shape, axes, at, length, said in table:
                if key not in keys:
                    continue
                x = np.empty(shape, npy_format.descr_to_dtype(checkpoint.as_tuples(kind)))
                into = files.bytes_of(x)
                if not files.read_at(handle, into, begin + at) or len(into) != length or crc32(into) != said:
                    raise checkpoint.damaged(path, f"block {block} of value {key} does not match its checksum")
                found.setdefault(key, {})[block] = x.transpose(np.argsort(axes))
        finally:
            os.close(handle)
    return found


def _table(path: str, handle: int) -> tuple[list[Any], int]:
    head = os.pread(handle, HEAD.size, 0)
    if len(head) < HEAD.size or head[:8] != MAGIC:
        raise checkpoint.damaged(path, "it has no head")
    _, said, length = HEAD.unpack(head)
    text = os.pread(handle, length, HEAD.size)
    if len(text) != length or crc32(text) != said:
        raise checkpoint.damaged(path, "its table does not match its checksum")
    table: list[Any] = json.loads(text)
    return table, HEAD.size + length
