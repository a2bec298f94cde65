"""Writing Zarr arrays. In: a place, a type. Out: Sinks that any worker may write to.

A folder is written beside its place and renamed. Where nothing can be renamed (a URL), the metadata are written last:
before that there is no array. What is written here carries a checksum per chunk, and says that all chunks are there.
"""

from __future__ import annotations

import ctypes
import os
import shutil
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
from tilewise.store.file_sink import FileSink, region_lengths
from tilewise.store.flat import refuse_objects, row_chunks
from tilewise.store.grid import ZARR_CHUNK_BYTES, check_chunks
from tilewise.store.zarr_store import BROKEN, COMPLETE, Place, ZarrSource


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
        if self._exists() and not overwrite:
            raise files.in_the_way(place.text)
        self._at = place if place.url else Place(files.beside(self._target), "", place.options)
        self._at.zipped = place.zipped
        self._made = self._create()

    @property
    def _target(self) -> str:
        return os.path.join(self.place.path, self.place.name) if self.place.name else self.place.path

    def _exists(self) -> bool:
        if not self.place.url:
            return os.path.lexists(self._target)
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
                self._hide()
                held = zarr.create_array(zarr.storage.MemoryStore(), name=self.place.name or None, **self._how)
                return _onto(held, self.place.store("w"))
            if self.place.name and not self.place.zipped:
                self._make_groups(self.place.store("a"))
            store = zarr.storage.ZipStore(self._at.path, mode="w") if self.place.zipped else self._at.path
            return zarr.create_array(store, name=self.place.name or None if self.place.zipped else None, **self._how)
        except (OSError, *BROKEN) as error:
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
            files.replace_file(self._at.path, self._target)
            return
        for folder, _, names in os.walk(self._at.path):
            for name in names:
                files.flush(os.path.join(folder, name))
            files.flush(folder)
        replace_folder(self._at.path, self._target)

    def discard(self) -> None:
        """Remove what was written."""
        if self.place.url:
            sync(self._made.store.delete_dir(self.place.name))
        elif self.place.zipped:
            self._made.store.close()
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


def replace_folder(made: str, path: str) -> None:
    """Give a finished folder its name; one that had it before goes, at the same moment where the system can do that."""
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
