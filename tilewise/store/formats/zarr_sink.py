"""Writing Zarr arrays. In: a place, a type. Out: Sinks that any worker may write to.

A folder is written beside its place and renamed. Where nothing can be renamed (a URL), the metadata are written last:
before that there is no array. What is written here carries a checksum per chunk, and says that all chunks are there.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import zarr
import zarr.codecs
import zarr.storage
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from tilewise.errors import StoreError, message
from tilewise.layout import Box
from tilewise.store import files
from tilewise.store.base import ND, BoxError
from tilewise.store.chunks import ZARR_CHUNK_BYTES, check_chunks
from tilewise.store.formats.file_sink import FileSink, region_lengths
from tilewise.store.formats.flat import refuse_objects, row_chunks
from tilewise.store.formats.zarr_source import BROKEN, COMPLETE, Place, ZarrSource


class ZarrSink(FileSink):
    """A new Zarr array, or a region of one."""

    whole_chunks = True

    def __init__(
        self,
        place: Place,
        shape: tuple[int, ...],
        dtype: Any,
        overwrite: bool = False,
        chunks: tuple[int, ...] | None = None,
        shards: tuple[int, ...] | None = None,
        compress: bool = True,
    ) -> None:
        kind = np.dtype(dtype)
        refuse_objects(place.text, kind)
        unit = chunks or row_chunks(tuple(shape), kind.itemsize, None, ZARR_CHUNK_BYTES)
        check_chunks(place.text, shape, unit, shards)
        super().__init__(place.text, tuple(shape), kind, shards or unit, None)
        self.place, self.overwrite = place, overwrite
        self.opened_by_workers = not place.zipped
        codecs = [zarr.codecs.ZstdCodec(level=1)] if compress else []
        self._how = {
            "shape": self.shape, "dtype": kind, "chunks": unit, "shards": shards, "attributes": {COMPLETE: True},
            "compressors": [*codecs, zarr.codecs.Crc32cCodec()], "config": {"write_empty_chunks": True},
        }  # fmt: skip
        if not place.url:
            files.check_parent(place.path)
        with files.explained(place.text, "write"):
            self._check_free()
            self._at = place if place.url else Place(files.beside(self._target), "", place.options)
            self._at.zipped = place.zipped
            self._made = self._create()

    @property
    def _named(self) -> str:
        """What is made: the zip file, or the folder of the array."""
        inside = self.place.name and not self.place.zipped
        return os.path.join(self.place.path, self.place.name) if inside else self.place.path

    @property
    def _target(self) -> str:
        return files.real(self._named)

    def _check_free(self) -> None:
        """Raise if something is in the way that is not to be replaced: only a Zarr array ever is, and all of it."""
        if not self.overwrite and self._exists():
            raise files.in_the_way(self.place.text)
        try:
            if self.place.zipped:
                files.check_free(self._target, True)
                kept = _others_in_zip(self.place) if os.path.exists(self._target) else None
            elif self.place.url:
                kept = foreign(_keys(self.place.store(), self.place.name), self._exists())
            else:
                kept = _foreign_in_folder(self._target) if os.path.exists(self._target) else None
        except (OSError, *BROKEN) as error:
            raise self._refused(error) from None
        if kept is not None:
            raise files.InTheWay(
                message(
                    f"{self.place.text} is not a Zarr array and nothing else, so that it is not replaced",
                    got=kept,
                    cure="Store elsewhere (name= for an array in a group), or remove it yourself",
                )
            )

    def _exists(self) -> bool:
        if not self.place.url:
            return os.path.lexists(self._named)
        try:
            zarr.open_array(self.place.store(), path=self.place.name, mode="r")
        except FileNotFoundError:
            return False
        except (OSError, *BROKEN) as error:
            raise self.place.explain(error) from None
        return True

    def _create(self) -> Any:
        """The array, without its metadata where others can see it."""
        try:
            if self.place.url:
                held = zarr.create_array(zarr.storage.MemoryStore(), name=self.place.name or None, **self._how)
                self._hide()  # zarr has taken the type and the chunks: what is there is not lost to a mistake in them
                return _onto(held, self.place.store("w"))
            if self.place.name and not self.place.zipped:
                self._make_groups(self.place.store("a"))
            store = zarr.storage.ZipStore(self._at.path, mode="w") if self.place.zipped else self._at.path
            return zarr.create_array(store, name=self.place.name or None if self.place.zipped else None, **self._how)
        except (OSError, *BROKEN, TypeError) as error:
            self._remove()
            raise self._refused(error) from None

    def _make_groups(self, store: Any) -> None:
        """The groups that an array with a name is in."""
        names = self.place.name.split("/")
        for k in range(len(names)):
            zarr.open_group(store, path="/".join(names[:k]), mode="a")

    def _hide(self) -> None:
        """Of an array that is replaced where nothing can be renamed, metadata go first: it is gone, not half new."""
        if self._exists():
            sync(self.place.store("w").delete_dir(self.place.name))

    def put(self, box: Box, block: ND) -> None:
        """Encode a block, chunk by chunk."""
        try:
            self._made[(*(slice(lo, hi) for lo, hi in box), ...)] = block
        except BROKEN as error:
            raise self.place.explain(error) from None
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> Exception:
        """An error of the system keeps its number, which says the cure."""
        return error if isinstance(error, OSError) and error.errno and not self.place.url else self.place.explain(error)

    def finish(self) -> None:
        """Give it its name, or its metadata."""
        if self.place.url:
            if self.place.name:
                self._make_groups(self._made.store)
            text = self._made.metadata.to_buffer_dict(default_buffer_prototype())
            for key, value in text.items():
                sync(self._made.store.set(f"{self.place.name}/{key}".lstrip("/"), value))
            return
        if self.place.zipped:
            self._made.store.close()
            self._check_free()
            files.replace_file(self._at.path, self._target)
            return
        files.flush_folder(self._at.path)
        self._check_free()
        replace_folder(self._at.path, self._target)

    def discard(self) -> None:
        """Remove what was written."""
        if self.place.url:
            sync(self._made.store.delete_dir(self.place.name))
            return
        if self.place.zipped:
            with suppress(OSError):  # it may be that the disk has no room for what is not written yet
                self._made.store.close()
        self._remove()

    def _remove(self) -> None:
        """Remove what is not finished, where it has a name of its own."""
        if self.place.url:
            return
        if self.place.zipped:
            files.remove(self._at.path)
        else:
            shutil.rmtree(self._at.path, ignore_errors=True)

    def __reduce__(self) -> Any:
        return _copied, (self.path, self.shape, self.dtype, self.chunks, self.starts, self.place, self._made)


class ZarrRegion(ZarrSink):
    """A part of an array that exists, written in place."""

    def __init__(self, into: ZarrSource, region: Box) -> None:
        lengths = region_lengths(into.place.text, region, into.shape)
        FileSink.__init__(self, into.place.text, lengths, into.dtype, into.unit, region)
        if into.place.zipped:
            raise StoreError(
                message(f"{self.path} is a zip file, whose chunks cannot be written again", cure="Use a folder")
            )
        self.place, self.opened_by_workers = into.place, True
        try:
            self._made = zarr.open_array(into.place.store("r+"), path=into.place.name, mode="r+")
        except (OSError, *BROKEN) as error:
            raise self._refused(error) from None

    def finish(self) -> None:
        """Zarr has written it."""

    def discard(self) -> None:
        """What was written stays: it took the place of what was there."""


class _Copy(FileSink):
    """A sink as a worker has it: it writes, and nothing else."""

    whole_chunks = True

    def put(self, box: Box, block: ND) -> None:
        """Encode a block."""
        ZarrSink.put(self, box, block)  # type: ignore[arg-type]

    _refused = ZarrSink._refused

    def finish(self) -> None:
        """Not here."""
        raise BoxError("a sink is committed where it was made")

    def discard(self) -> None:
        """Not here."""


def _copied(path: str, shape: Any, dtype: Any, chunks: Any, starts: Any, place: Place, made: Any) -> _Copy:
    copy = _Copy(path, shape, dtype, chunks, None)
    copy.starts, copy.place, copy._made = starts, place, made  # type: ignore[attr-defined]
    return copy


def _onto(held: Any, store: Any) -> Any:
    """An array in a store that does not have its metadata yet."""
    inner = held._async_array
    moved = type(inner)(metadata=inner.metadata, store_path=zarr.storage.StorePath(store, inner.store_path.path),
                        config=inner.config)  # fmt: skip
    return zarr.Array(moved)


METADATA = {"zarr.json", ".zarray", ".zattrs"}  # of an array
CHUNK = re.compile(r"(c|(c[/.])?\d+([/.]\d+)*)(\.[0-9a-f]{32}\.partial)?")  # keys of chunks, as all encodings have them
OUR_CHUNK = re.compile(r"c(/\d+)*(\.[0-9a-f]{32}\.partial)?")  # the one that is written here


def foreign(keys: Iterable[str], is_array: bool) -> str | None:
    """A key at a place that is not part of one Zarr array; None if there is none, and nothing would be lost.

    Without its metadata there may be chunks: a write that was broken off has left them.

    >>> foreign(["zarr.json", "c/0/1"], True), foreign(["c/0"], False), foreign(["0.0", "notes.txt"], True)
    (None, None, 'notes.txt')
    """
    known = CHUNK if is_array else OUR_CHUNK
    return next((k for k in keys if not (known.fullmatch(k) or (is_array and k in METADATA))), None)


def _foreign_in_folder(path: str) -> str | None:
    if not os.path.isdir(path):
        return "a file"
    if not os.listdir(path):
        return None
    if not _is_array(path):
        return f"a folder with {min(os.listdir(path))}"
    found = (os.path.relpath(os.path.join(at, k), path) for at, _, names in os.walk(path) for k in names)
    return foreign((k.replace(os.sep, "/") for k in found), True)


def _is_array(path: str) -> bool:
    """Whether the metadata in a folder are those of an array."""
    try:
        if not os.path.exists(os.path.join(path, "zarr.json")):
            return os.path.isfile(os.path.join(path, ".zarray"))
        found = json.loads(Path(path, "zarr.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("node_type") == "array"


def _others_in_zip(place: Place) -> str | None:
    """What a zip file holds besides the array that is to be replaced; a file of another kind holds nothing."""
    if not zipfile.is_zipfile(place.path):
        return None
    with zipfile.ZipFile(place.path) as archive:
        ours = {f"{place.name}/{k}".lstrip("/") for k in METADATA}
        return next((k for k in archive.namelist() if _describes_array(archive, k) and k not in ours), None)


def _describes_array(archive: zipfile.ZipFile, key: str) -> bool:
    name = key.rsplit("/", 1)[-1]
    return name == ".zarray" or (name == "zarr.json" and b'"array"' in archive.read(key))


def _keys(store: Any, name: str) -> list[str]:
    """All keys below a place of a store, without its name."""
    prefix = f"{name}/" if name else ""

    async def listed() -> list[str]:
        try:
            return [k.removeprefix(prefix) async for k in store.list_prefix(prefix)]
        except FileNotFoundError:
            return []

    return sync(listed())


def replace_folder(made: str, path: str) -> None:
    """Give a finished folder its name; the array that had it goes, at the same moment where the system can do that."""
    if os.path.lexists(path):
        if not _exchange(made, path):
            aside = files.beside(path)
            os.rename(path, aside)
            os.rename(made, path)
            made = aside
        files.flush(os.path.dirname(path))
        shutil.rmtree(made, ignore_errors=True) if os.path.isdir(made) else files.remove(made)
        return
    os.rename(made, path)
    files.flush(os.path.dirname(path))


_AT_CWD, _RENAME_EXCHANGE = -100, 2  # of Linux


def _exchange(one: str, other: str) -> bool:
    """Let two paths change places; False where the system cannot."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    return call is not None and call(_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _RENAME_EXCHANGE) == 0
