"""Checkpoints on disk. In: arrays block by block, small values. Out: the same, or an error that names what is damaged.

A checkpoint is a folder: a file of blocks for each array, and a manifest that says which files belong to it. Blocks are
written first, by whoever has them, each with a checksum; the manifest is written last, and takes the place of the one
before in one step. So there is always one whole checkpoint, or none. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import struct
from collections.abc import Hashable, Mapping
from math import prod
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.lib import format as npy_format

from tilewise.errors import StoreError, message
from tilewise.ir.order import Order
from tilewise.layout import Box
from tilewise.records import dataclass
from tilewise.store import files
from tilewise.store.base import ND, Source, check_box, within
from tilewise.store.formats.file_sink import FileSink
from tilewise.store.formats.flat import refuse_objects, row_chunks

FORMAT, VERSION = "tilewise checkpoint", 1
MANIFEST, SUFFIX = "manifest.json", ".blocks"
OURS = re.compile(rf"-[0-9a-f]{{12}}{re.escape(SUFFIX)}$|{re.escape(files.UNFINISHED)}")  # in names of files
HEAD = struct.Struct("<IQ")  # before each block: its checksum and its length
BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class Blocks:
    """A file of blocks: which, of what, and a number that no other file has, which its checksums begin with."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Order
    chunks: tuple[int, ...]
    nonce: int

    def slot(self, box: Box) -> tuple[int, int]:
        """Which block a box lies in, and where that begins in the file."""
        grid = [-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True)]
        at = 0
        for (lo, _), c, n in zip(box, self.chunks, grid, strict=True):
            at = at * n + lo // c
        return at, at * (HEAD.size + prod(self.chunks) * self.dtype.itemsize)

    def checksum(self, slot: int, data: Any) -> int:
        """Of a block in its place: one of another file or place does not have it."""
        return crc32(data, crc32(struct.pack("<QQ", self.nonce, slot)))

    def described(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "file": os.path.basename(self.path), "shape": list(self.shape), "order": self.order,
            "dtype": npy_format.dtype_to_descr(self.dtype), "chunks": list(self.chunks), "nonce": self.nonce,
        }  # fmt: skip

    @staticmethod
    def from_manifest(folder: str, row: Mapping[str, Any]) -> Blocks:
        """What a manifest says."""
        dtype = np.dtype(npy_format.descr_to_dtype(as_tuples(row["dtype"])))
        order = None if row["order"] is None else tuple(row["order"])
        path = os.path.join(folder, os.path.basename(row["file"]))
        return Blocks(path, tuple(row["shape"]), dtype, order, tuple(row["chunks"]), row["nonce"])


def as_tuples(descr: Any) -> Any:
    """Fields of a dtype as NumPy takes them; JSON has lists only."""
    if isinstance(descr, str):
        return descr
    return [tuple(tuple(x) if isinstance(x, list) and k == 2 else x for k, x in enumerate(row)) for row in descr]


class BlockSink(FileSink):
    """A file of blocks. Nobody looks at it before a manifest names it."""

    opened_by_workers = True
    whole_chunks = True

    def __init__(self, folder: str, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], order: Order) -> None:
        token = secrets.randbits(48)
        path = os.path.join(folder, f"{name}-{token:012x}{SUFFIX}")
        refuse_objects(path, dtype)
        chunks = row_chunks(shape, dtype.itemsize, order, BLOCK_BYTES)
        self.blocks = Blocks(path, shape, dtype, order, chunks, token)
        super().__init__(path, shape, dtype, chunks, None)
        with files.explained(path, "write"):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))

    def put(self, box: Box, block: ND) -> None:
        """Write a block and its checksum."""
        slot, at = self.blocks.slot(box)
        data = files.bytes_of(block)
        handle = os.open(self.path, os.O_WRONLY)
        try:
            os.pwrite(handle, HEAD.pack(self.blocks.checksum(slot, data), len(data)), at)
            files.write_at(handle, data, at + HEAD.size)
        finally:
            os.close(handle)

    def finish(self) -> None:
        """All blocks are on the disk."""
        files.flush(self.path)

    def discard(self) -> None:
        """Remove the file."""
        files.remove(self.path)


class BlockSource(Source):
    """An array in a file of blocks, of which every one that is read is checked."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.shape, self.dtype, self.order, self.chunks = blocks.shape, blocks.dtype, blocks.order, blocks.chunks

    def fingerprint(self) -> Hashable:
        """The number of the file, which is written once."""
        return "checkpoint", self.blocks.path, self.blocks.nonce

    def reads(self, path: str) -> bool:
        """Whether this is its file, or its checkpoint."""
        return any(files.same(path, p) for p in (self.blocks.path, os.path.dirname(self.blocks.path)))

    def read(self, box: Box, out: ND | None = None) -> ND:
        """A part of a block, all of which is read and checked."""
        check_box(box, self.shape, self.dtype, out)
        if any(lo >= hi for lo, hi in box):
            part: ND = np.empty([hi - lo for lo, hi in box], self.dtype)
        else:
            first = [lo // c * c for (lo, _), c in zip(box, self.chunks, strict=True)]
            block = tuple((a, min(a + c, n)) for a, c, n in zip(first, self.chunks, self.shape, strict=True))
            part = self._block(block)[within(box, block)]
        if out is None:
            return part
        out[...] = part
        return out

    def _block(self, box: Box) -> ND:
        path = self.blocks.path
        slot, at = self.blocks.slot(box)
        block = np.empty([hi - lo for lo, hi in box], self.dtype)
        view = files.bytes_of(block)
        with files.explained(path, "read"):
            handle = os.open(path, os.O_RDONLY)
            try:
                head = os.pread(handle, HEAD.size, at)
                whole = files.read_at(handle, view, at + HEAD.size)
            finally:
                os.close(handle)
        if len(head) < HEAD.size or not whole:
            raise damaged(path, f"block {slot} is cut off")
        if HEAD.unpack(head) != (self.blocks.checksum(slot, view), len(view)):
            raise damaged(path, f"block {slot} does not match its checksum")
        return block

    def __reduce__(self) -> Any:
        return BlockSource, (self.blocks,)

    def __repr__(self) -> str:
        return f"<checkpoint {self.blocks.path} {self.shape} of {self.dtype}>"


def damaged(path: str, why: str) -> StoreError:
    """The error for a checkpoint that cannot be trusted."""
    return StoreError(
        message(f"{path} is damaged: {why}", cure="Restore it from a copy, or remove the checkpoint to begin anew")
    )


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint holds: arrays, and values that JSON can say."""

    arrays: dict[str, Blocks]
    values: dict[str, Any]


def is_checkpoint(folder: str) -> bool:
    """Whether there is a manifest of ours in a folder."""
    try:
        return FORMAT in Path(folder, MANIFEST).read_text()[:200]
    except (OSError, UnicodeDecodeError):
        return False


def read_manifest(folder: str) -> Manifest | None:
    """The checkpoint in a folder; None if there is none. All files that it names are there, and long enough."""
    path = os.path.join(folder, MANIFEST)
    if not os.path.lexists(path):
        return None
    with files.explained(path, "read"):
        text = Path(path).read_bytes()
    try:
        found = json.loads(text)
        said, body = found["sum"], found["body"]
        if found["format"] != FORMAT or said != _sum(body):
            raise damaged(path, "the manifest does not match its checksum")
        if found["version"] != VERSION:
            raise damaged(path, f"it was written by another version, {found['version']}")
        arrays = {k: Blocks.from_manifest(folder, row) for k, row in body["arrays"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, f"the manifest cannot be read ({error})") from None
    for blocks in arrays.values():
        if not os.path.exists(blocks.path):
            raise damaged(blocks.path, "the file is missing")
    return Manifest(arrays, body["values"])


def write_manifest(folder: str, manifest: Manifest) -> None:
    """Make a checkpoint the one in its folder."""
    body = {"arrays": {k: b.described() for k, b in manifest.arrays.items()}, "values": manifest.values}
    path = os.path.join(folder, MANIFEST)
    with files.explained(path, "write"):
        files.flush(folder)
        files.write_text(path, json.dumps({"format": FORMAT, "version": VERSION, "sum": _sum(body), "body": body}))


def _sum(body: Any) -> int:
    return crc32(json.dumps(body, sort_keys=True).encode())


def make_folder(path: Any) -> str:
    """The folder of a checkpoint, made if it is not there; something else there is an error."""
    folder = files.full_path(path)
    with files.explained(folder, "write"):
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise files.in_the_way(folder)
        if not os.path.isdir(folder):
            files.check_parent(folder)
            os.mkdir(folder)
            files.flush(os.path.dirname(folder))
        elif os.listdir(folder) and not is_ours(folder):
            raise StoreError(message(f"{folder} holds something that is no checkpoint", cure="Choose another folder"))
    return folder


def is_ours(folder: str) -> bool:
    """Whether a folder holds nothing but checkpoints, whole or not."""
    names = set(os.listdir(folder))
    is_known = MANIFEST not in names or is_checkpoint(folder)
    return is_known and all(OURS.search(k) for k in names - {MANIFEST})


def remove_others(folder: str, keep: set[str]) -> None:
    """Remove files of checkpoints before this one, and of those that were never finished."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if OURS.search(name) and path not in keep:
            files.remove(path)
