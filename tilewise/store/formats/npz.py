"""NumPy's archives. In: paths of .npz files. Out: a Source for each member, a Sink for all.

Members that are stored as they are lie in the file as in a .npy file (flat.py). Compressed ones can only be read from
their beginning: they are one chunk, read by whoever needs any of it.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Hashable, Mapping
from threading import Lock
from typing import IO, Any, NamedTuple

import numpy as np

from tilewise.errors import StoreError, message
from tilewise.ir.order import Order
from tilewise.layout import Box
from tilewise.store import files
from tilewise.store.base import ND, Source, check_box, within
from tilewise.store.formats.flat import FlatSource, refuse_objects
from tilewise.store.formats.npy import head, read_head

BROKEN = (zipfile.BadZipFile, zlib.error, EOFError)  # what is said of damaged archives
PIECE_BYTES = 1 << 20  # that are read together to look at a checksum
LOCAL_HEADER_BYTES = 30  # before the name of a member; two lengths stand at its end


def open_npz(path: Any) -> dict[str, Source]:
    """The members of an archive, by name (without .npy)."""
    name = files.full_path(path)
    stamp = files.stamp(name)
    found: dict[str, Source] = {}
    with files.explained(name, "read"), opened(name) as archive:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            member = info.filename.removesuffix(".npy")
            try:
                with archive.open(info) as file:
                    shape, dtype, order, begin = read_head(file, f"{name}[{member!r}]")  # type: ignore[arg-type]
            except (*BROKEN, RuntimeError) as error:  # NotImplementedError is one
                raise damaged(f"{name}[{member!r}]", error) from None
            if info.compress_type == zipfile.ZIP_STORED:
                extent = Extent(_begin(name, info), info.file_size, info.CRC)
                found[member] = Unpacked(name, shape, dtype, extent, extent.start + begin, order, stamp)
            else:
                found[member] = Packed(name, info.filename, shape, dtype, order, stamp)
    if not found:
        raise StoreError(message(f"{name} holds no arrays in NumPy's format", cure="Check the path"))
    return found


def opened(name: str) -> zipfile.ZipFile:
    """An archive to read."""
    try:
        return zipfile.ZipFile(name)
    except zipfile.BadZipFile as error:
        raise damaged(name, error) from None


def damaged(name: str, error: Exception) -> StoreError:
    """The error for a file whose contents make no sense."""
    return StoreError(message(f"{name} is damaged or of another kind", got=str(error), cure="Restore it"))


def _begin(name: str, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin."""
    with open(name, "rb") as file:
        file.seek(info.header_offset + LOCAL_HEADER_BYTES - 4)
        lengths = np.frombuffer(file.read(4), "<u2")
    return info.header_offset + LOCAL_HEADER_BYTES + int(lengths.sum())


class Extent(NamedTuple):
    """Where a member lies in its archive, and the checksum of its bytes."""

    start: int
    nbytes: int
    checksum: int


_looking = Lock()
_sound: set[tuple[str, files.Stamp, Extent]] = set()  # members that match their checksum, as this process has seen


class Unpacked(FlatSource):
    """A member that is stored as it is. Before its first read in a process all of it is held against its checksum."""

    def __init__(
        self,
        path: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        extent: Extent,
        offset: int,
        order: Order,
        stamp: files.Stamp,
    ) -> None:
        super().__init__(path, shape, dtype, offset, order, stamp)
        self.extent = extent

    def _read(self, handle: int, box: Box, out: ND) -> None:
        with _looking:
            self._check(handle)
        super()._read(handle, box, out)

    def _check(self, handle: int) -> None:
        key = self.path, self.stamp, self.extent
        if key in _sound:
            return
        at, end, checksum = self.extent.start, self.extent.start + self.extent.nbytes, 0
        while at < end and (piece := os.pread(handle, min(PIECE_BYTES, end - at), at)):
            checksum, at = zlib.crc32(piece, checksum), at + len(piece)
        if files.Stamp.of(os.fstat(handle)) != self.stamp:
            raise files.changed(self.path)
        if at < end or checksum != self.extent.checksum:
            raise damaged(self.path, ValueError("an array that does not match its checksum"))
        _sound.add(key)

    def __reduce__(self) -> Any:
        return Unpacked, (self.path, self.shape, self.dtype, self.extent, self.offset, self.order, self.stamp)


class Packed(Source):
    """A compressed member, one chunk. Its checksum is looked at when it is read."""

    def __init__(
        self, path: str, member: str, shape: tuple[int, ...], dtype: np.dtype[Any], order: Order, stamp: files.Stamp
    ) -> None:
        self.path, self.member, self.stamp = path, member, stamp
        self.shape, self.dtype, self.order = shape, dtype, order
        self.chunks = tuple(max(n, 1) for n in shape)

    def fingerprint(self) -> Hashable:
        """The file as it was when it was opened, and the member."""
        return "npz", self.path, self.stamp, self.member

    def reads(self, path: str) -> bool:
        """Whether this is its file."""
        return files.same(path, self.path)

    def read(self, box: Box, out: ND | None = None) -> ND:
        """A part of the whole member, which is unpacked for it."""
        check_box(box, self.shape, self.dtype, out)
        with files.explained(self.path, "read"), open(self.path, "rb") as file:
            if files.Stamp.of(os.fstat(file.fileno())) != self.stamp:
                raise files.changed(self.path)
            try:
                with zipfile.ZipFile(file) as archive, archive.open(self.member) as member:
                    whole = np.lib.format.read_array(member, allow_pickle=False)
            except (*BROKEN, ValueError) as error:
                raise damaged(f"{self.path}[{self.member!r}]", error) from None
        part: ND = whole[within(box, tuple((0, n) for n in self.shape))]
        if out is None:
            return part
        out[...] = part
        return out

    def __reduce__(self) -> Any:
        return Packed, (self.path, self.member, self.shape, self.dtype, self.order, self.stamp)


def write_npz(path: Any, arrays: Mapping[str, ND], overwrite: bool, compressed: bool = False) -> str:
    """A new archive, whole or not at all."""
    name = files.full_path(path)
    for array in arrays.values():
        refuse_objects(name, array.dtype)
    with files.explained(name, "write"):
        files.check_free(name, overwrite)
        made = files.beside(name)
        try:
            kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
            with zipfile.ZipFile(made, "x", kind) as archive:
                for member, array in arrays.items():
                    with archive.open(f"{member}.npy", "w", force_zip64=True) as file:
                        _write_member(file, array)
            files.replace_file(made, name)
        except BaseException:
            files.remove(made)
            raise
    return name


def _write_member(file: IO[bytes], array: ND) -> None:
    is_fortran = array.flags.fnc
    laid = array.T if is_fortran else array
    file.write(head(array.shape, array.dtype, () if is_fortran else None))
    if laid.size:
        file.write(files.bytes_of(laid))
