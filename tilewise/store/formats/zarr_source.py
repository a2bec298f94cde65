"""Zarr arrays: folders, zip files, fsspec URLs. In: paths. Out: Sources. The one door to zarr and fsspec.

Writing is in zarr_sink.py, which is opened by the same door.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import zarr
import zarr.errors
import zarr.storage
from zarr.core.sync import sync

from tilewise.errors import StoreError, message
from tilewise.layout import Box
from tilewise.store import files
from tilewise.store.base import ND, Source, check_box, cut_at_chunks, within
from tilewise.store.chunks import grown
from tilewise.store.formats.flat import refuse_objects
from tilewise.store.formats.zarr_chunks import Chunks, chunks_of

COMPLETE = "tilewise_complete"  # an attribute: every chunk was written, so that one that is missing was lost
BROKEN = (ValueError, RuntimeError, KeyError, zipfile.BadZipFile, EOFError)  # what decoders say of damaged bytes
UNREADABLE = (OSError, *BROKEN, TypeError, AttributeError, LookupError, ArithmeticError)  # of damaged metadata


class Options(dict[str, Any]):
    """Options of fsspec. They may be credentials: never shown."""

    def __repr__(self) -> str:
        return f"<{len(self)} options>" if self else "{}"

    __str__ = __repr__

    def hidden(self, text: str) -> str:
        """A text without what the options say, as far as that can be told."""
        return hide(text, self)


def hide(text: str, value: Any) -> str:
    """A text without any of the strings in a value."""
    if isinstance(value, str) and len(value) > 3:
        return text.replace(value, "***")
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        text = hide(text, part)
    return text


class Place:
    """Where an array lies: a path or a URL with options. Pickles small, opens the array when first asked."""

    def __init__(self, path: Any, name: str = "", options: Mapping[str, Any] | None = None) -> None:
        self.url = files.is_url(path)
        self.path = os.fspath(path) if self.url else files.full_path(path)
        self.name, self.options = name, Options(options or {})
        self.zipped = not self.url and self.path.endswith(".zip")

    @property
    def text(self) -> str:
        """For messages."""
        return files.shown(self.path) + (f"/{self.name}" if self.name else "")

    def store(self, mode: str = "r") -> Any:
        """The store that zarr reads or writes."""
        if self.zipped:
            return zarr.storage.ZipStore(self.path, mode=mode)  # type: ignore[arg-type]
        if self.url:
            return zarr.storage.FsspecStore.from_url(
                self.path, storage_options=dict(self.options), read_only=mode == "r"
            )
        return zarr.storage.LocalStore(self.path, read_only=mode == "r")

    def explain(self, error: Exception) -> StoreError:
        """What zarr or fsspec says, with the place and without secrets."""
        if isinstance(error, StoreError):
            return error
        if isinstance(error, FileNotFoundError | zarr.errors.NodeNotFoundError):
            return files.NotThere(
                message(f"{self.text} holds no Zarr array", cure="Check the path, and the name of the array")
            )
        text = self.options.hidden(files.shown(str(error))) or type(error).__name__
        return StoreError(
            message(f"{self.text} cannot be read or written", got=text, cure="Restore it, or check access")
        )

    def version(self) -> str:
        """What the file system says of the metadata at a URL: when they were written, or their tag."""
        store, names = self.store(), ("ETag", "etag", "mtime", "LastModified", "last_modified", "created", "updated")
        for key in ("zarr.json", ".zarray"):
            try:
                told = sync(store.fs._info("/".join(k for k in (store.path, self.name, key) if k)))
            except (OSError, AttributeError, NotImplementedError):
                continue
            return " ".join(f"{k}={told[k]}" for k in names if k in told)
        return ""

    def digest(self) -> str:
        """Names the options without saying them."""
        return hashlib.blake2b(repr(sorted(self.options.items())).encode(), digest_size=8).hexdigest()


class ZarrSource(Source):
    """An array that zarr reads. `array` is given if the user has opened it already."""

    def __init__(self, place: Place, state: Any = None, array: Any = None) -> None:
        self.place = place
        if array is not None:
            self.array = array
        z = self.array
        self.shape, self.dtype = tuple(z.shape), np.dtype(z.dtype)
        refuse_objects(place.text, self.dtype, reading=True)
        self.unit = tuple(max(1, c) for c in (z.shards or z.chunks))
        self.chunks = grown(self.unit, self.shape, self.dtype.itemsize)
        self.complete = bool(z.attrs.get(COMPLETE, False))
        self.state = self._state() if state is None else state

    @cached_property
    def array(self) -> Any:
        """The array, opened in this process."""
        try:
            return zarr.open_array(self.place.store(), path=self.place.name, mode="r")
        except UNREADABLE as error:
            raise self.place.explain(error) from None

    def _state(self) -> Any:
        """What shows that the elements are the same: names, sizes and times of all files; of a URL its metadata."""
        place, text = self.place, repr(self.array.metadata.to_dict()).encode()
        if place.zipped:
            return files.stamp(place.path)
        digest = hashlib.blake2b(text, digest_size=16)
        newest = 0
        if place.url:
            digest.update(place.version().encode())
        if not place.url:
            for folder, inside, names in os.walk(self._folder):
                inside.sort()
                for file in sorted(names):
                    seen = os.stat(os.path.join(folder, file))
                    newest = max(newest, seen.st_mtime_ns)
                    digest.update(f"{file} {seen.st_size} {seen.st_mtime_ns} ".encode())
        return digest.hexdigest(), newest

    @property
    def _folder(self) -> str:
        return os.path.join(self.place.path, self.place.name)

    def fingerprint(self) -> Hashable:
        """The place and its state when it was opened."""
        return "zarr", files.shown(self.place.path), self.place.name, self.place.digest(), self.state

    def reads(self, path: str) -> bool:
        """Whether it lies there, or below."""
        mine, path = files.real(self._folder if not self.place.zipped else self.place.path), files.real(path)
        return (mine + "/").startswith(path + "/") or (path + "/").startswith(mine + "/")

    def read(self, box: Box, out: ND | None = None) -> ND:
        """The elements of a box, decoded by zarr."""
        check_box(box, self.shape, self.dtype, out)
        if self._chunks is not None and all(lo < hi for lo, hi in box):
            return self._read_files(self._chunks, box, out)
        if all(lo < hi for lo, hi in box):
            self._check(box)
        try:
            got = np.asarray(self.array[(*(slice(lo, hi) for lo, hi in box), ...)], self.dtype)
        except (OSError, *BROKEN) as error:
            raise self.place.explain(error) from None
        if out is None:
            return got
        out[...] = got
        return out

    @cached_property
    def _chunks(self) -> Chunks | None:
        return None if self.place.url or self.place.zipped else chunks_of(self.array)

    def _read_files(self, chunks: Chunks, box: Box, out: ND | None) -> ND:
        """The elements of a box, from the files of its chunks."""
        self._look("zarr.json", needed=True)
        if out is None:
            out = np.empty([hi - lo for lo, hi in box], self.dtype)
        for part, key in zip(cut_at_chunks(box, self.unit), self._keys(box), strict=True):
            inner = tuple((lo % c, lo % c + hi - lo) for (lo, hi), c in zip(part, self.unit, strict=True))
            self._read_file(chunks, key, inner, out[within(part, box)])
        return out

    def _read_file(self, chunks: Chunks, key: str, inner: Box, into: ND) -> None:
        """A box of one chunk."""
        path = os.path.join(self._folder, key)
        try:
            handle = os.open(path, os.O_RDONLY)
            try:
                try:
                    chunks.read(handle, os.fstat(handle).st_size, inner, into)
                finally:
                    if os.fstat(handle).st_mtime_ns > self.state[1]:
                        raise files.changed(path)
            finally:
                os.close(handle)
        except FileNotFoundError:
            if self.complete:
                raise self._lost(key) from None
            into[...] = self.array.metadata.fill_value
        except (OSError, *BROKEN) as error:
            raise self.place.explain(error) from None

    def _check(self, box: Box) -> None:
        """Raise if chunks of a box were written since the array was opened, or are gone."""
        if self.place.zipped:
            if files.stamp(self.place.path) != self.state:
                raise files.changed(self.place.path)
            return
        if self.place.url:
            if self.complete:
                for key in self._keys(box):
                    if not sync(self.array.store.exists(f"{self.place.name}/{key}".lstrip("/"))):
                        raise self._lost(key)
            return
        for key in ["zarr.json", ".zarray"][: 1 if self.array.metadata.zarr_format == 3 else 2]:
            self._look(key, needed=key == "zarr.json" and self.array.metadata.zarr_format == 3)
        for key in self._keys(box):
            self._look(key, needed=self.complete)

    def _look(self, key: str, needed: bool) -> None:
        try:
            seen = os.stat(os.path.join(self._folder, key))
        except FileNotFoundError:
            if needed:
                raise self._lost(key) from None
            return
        if seen.st_mtime_ns > self.state[1]:
            raise files.changed(os.path.join(self._folder, key))

    def _keys(self, box: Box) -> list[str]:
        grid = np.ndindex(*((hi - 1) // c - lo // c + 1 for (lo, hi), c in zip(box, self.unit, strict=True)))
        first = [lo // c for (lo, _), c in zip(box, self.unit, strict=True)]
        encode = self.array.metadata.encode_chunk_key
        return [encode(tuple(a + b for a, b in zip(first, at, strict=True))) for at in grid]

    def _lost(self, key: str) -> StoreError:
        return files.NotThere(
            message(f"the chunk {key} of {self.place.text} is missing", cure="Restore it from a copy")
        )

    def __reduce__(self) -> Any:
        return ZarrSource, (self.place, self.state)

    def __repr__(self) -> str:
        return f"<zarr {self.place.text} {self.shape} of {self.dtype}>"


def open_zarr(
    path: Any, name: str | None = None, options: Mapping[str, Any] | None = None
) -> Source | dict[str, Source]:
    """An array as a Source; of a group all arrays in it, by name."""
    place = Place(path, name or "", options)
    if not place.url:
        files.stamp(place.path)  # whether it is there
    try:
        node = zarr.open(place.store(), path=place.name, mode="r")
        if isinstance(node, zarr.Array):
            return ZarrSource(place)
        inside = [k for k, v in node.members(max_depth=None) if isinstance(v, zarr.Array)]
        prefix = f"{place.name}/" if place.name else ""
        return {k: ZarrSource(Place(path, prefix + k, options)) for k in sorted(inside)}
    except UNREADABLE as error:
        raise place.explain(error) from None


def opened_by_user(array: Any) -> Source | None:
    """A Source for an array that the user has opened to read; None if it can be written to."""
    if not array.read_only:
        return None
    store, name = array.store, array.path
    if isinstance(store, zarr.storage.ZipStore):
        return ZarrSource(_zip_place(store.path, name))
    if isinstance(store, zarr.storage.LocalStore):
        return ZarrSource(Place(str(store.root), name))
    source = Opened(Place("zarr://opened-by-user", name), (), array)
    return source


def _zip_place(path: Any, name: str) -> Place:
    place = Place(path, name)
    place.zipped = True
    return place


class Opened(ZarrSource):
    """An array in a store that only its user knows how to open: read here."""

    opened_by_workers = False

    def fingerprint(self) -> Hashable:
        """This very array."""
        return "zarr array", id(self.array)

    _chunks = None

    def _check(self, box: Box) -> None:
        """Nothing is known of its store."""
