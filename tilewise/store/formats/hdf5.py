"""HDF5 datasets. In: paths of files, names of datasets. Out: Sources and Sinks. The one door to h5py.

A dataset without chunks lies in its file as in a .npy file: it is read and written by flat.py, by several threads and
workers at once. HDF5 itself does one thing at a time in a process, and lets one process write.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np

from tilewise.errors import StoreError, message
from tilewise.layout import Box
from tilewise.store import files
from tilewise.store.base import ND, Source, check_box
from tilewise.store.chunks import check_chunks, grown
from tilewise.store.formats.file_sink import FileSink, region_lengths
from tilewise.store.formats.flat import FlatRegion, FlatSink, FlatSource, refuse_objects

BROKEN = (OSError, RuntimeError, KeyError, ValueError)


def open_hdf5(path: Any, name: str | None = None) -> Source | dict[str, Source]:
    """A dataset as a Source; without a name all datasets of the file, by name."""
    at = files.full_path(path)
    stamp = files.stamp(at)
    with files.explained(at, "read"), _opened(at) as file:
        try:
            return _sources(file, at, name, stamp)
        except StoreError:
            raise
        except (*BROKEN, TypeError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise damaged(at, error) from None


def _sources(file: Any, path: str, name: str | None, stamp: files.Stamp) -> Source | dict[str, Source]:
    """The dataset of a name, or all of a file."""
    if name is not None:
        found = file.get(name)
        if not isinstance(found, h5py.Dataset):
            raise StoreError(message(f"{path} has no dataset {name!r}", cure=f"It has {_names(file)}"))
        return source_of(found, path, stamp)
    return {k: source_of(file[k], path, stamp) for k in _names(file)}


def _opened(path: str, mode: str = "r") -> Any:
    try:
        return h5py.File(path, mode)
    except OSError as error:
        if error.errno:
            raise
        raise damaged(path, error) from None


def damaged(path: str, error: Exception) -> StoreError:
    """The error for a file that HDF5 cannot make sense of."""
    text = str(error).split("(", 1)[-1].rstrip(")")
    return StoreError(message(f"{path} is damaged, or no HDF5 file", got=text, cure="Restore it, or check the path"))


def _names(file: Any) -> list[str]:
    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if _is_array(item) else None)
    return sorted(found)


def _is_array(item: Any) -> bool:
    return isinstance(item, h5py.Dataset) and item.shape is not None and not item.dtype.hasobject


def source_of(dataset: Any, path: str, stamp: files.Stamp) -> Source:
    """A Source for an open dataset."""
    dtype = np.dtype(dataset.dtype)
    refuse_objects(f"{path}[{dataset.name!r}]", dtype, reading=True)
    shape, offset = tuple(dataset.shape), dataset.id.get_offset()
    plain = dataset.chunks is None and not dataset.external and not dataset.is_virtual
    if plain and offset is not None and _as_in_memory(dataset):
        return FlatSource(path, shape, dtype, offset + dataset.file.userblock_size, None, stamp)
    return H5Source(path, dataset.name, shape, dtype, dataset.chunks, stamp)


def _as_in_memory(dataset: Any) -> bool:
    """Whether elements lie in the file byte by byte as in NumPy's dtype."""
    stored = dataset.id.get_type()
    return bool(
        stored.get_size() == dataset.dtype.itemsize and dataset.dtype.kind in "biufcS" and dataset.dtype.names is None
    )


class H5Source(Source):
    """A dataset that HDF5 reads: chunked, compressed, virtual."""

    def __init__(
        self,
        path: str,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        unit: tuple[int, ...] | None,
        stamp: files.Stamp,
    ) -> None:
        self.path, self.name, self.shape, self.dtype, self.unit, self.stamp = path, name, shape, dtype, unit, stamp
        whole = tuple(max(n, 1) for n in shape)
        self.chunks = grown(unit or whole, shape, dtype.itemsize)

    def fingerprint(self) -> Hashable:
        """The file as it was when it was opened, and the dataset."""
        return "hdf5", self.path, self.stamp, self.name

    def reads(self, path: str) -> bool:
        """Whether this is its file."""
        return files.same(path, self.path)

    def read(self, box: Box, out: ND | None = None) -> ND:
        """The elements of a box, decoded by HDF5."""
        check_box(box, self.shape, self.dtype, out)
        if files.stamp(self.path) != self.stamp:
            raise files.changed(self.path)
        with files.explained(self.path, "read"):
            try:
                with h5py.File(self.path, "r") as file:
                    part = (*(slice(lo, hi) for lo, hi in box), ...)
                    if out is not None and out.flags.c_contiguous and out.size and out.ndim:
                        file[self.name].read_direct(out, part)
                        return out
                    got = np.asarray(file[self.name][part], self.dtype)
            except BROKEN as error:
                raise damaged(f"{self.path}[{self.name!r}]", error) from None
        if out is None:
            return got
        out[...] = got
        return out

    def __reduce__(self) -> Any:
        return H5Source, (self.path, self.name, self.shape, self.dtype, self.unit, self.stamp)

    def __repr__(self) -> str:
        return f"<hdf5 {self.path}[{self.name!r}] {self.shape} of {self.dtype}>"


Copied = files.Stamp | None  # the file that a new one began as a copy of


def _prepared(path: str, name: str, overwrite: bool) -> tuple[str, Copied]:
    """A copy of a file under another name, or none yet, without the dataset that is to come."""
    made = files.beside(path)
    with files.explained(path, "write"):
        files.check_free(path, overwrite=True)
        if not os.path.exists(path):
            files.check_parent(path)
            return made, None
        copied = files.stamp(path)
        with _opened(path) as file:
            if name in file and not overwrite:
                raise files.in_the_way(f"{path}[{name!r}]")
        try:
            shutil.copyfile(path, made)
            with _opened(made, "r+") as file:
                if name in file:
                    del file[name]
        except BaseException:
            files.remove(made)
            raise
    return made, copied


def _replace(made: str, path: str, copied: Copied) -> None:
    """Give a file its name, unless another dataset came into the old one, or it was changed, meanwhile."""
    if (files.stamp(path) if os.path.exists(path) else None) != copied:
        raise StoreError(
            message(
                f"{path} was written to by others meanwhile, and was left as they made it",
                cure="Store again; datasets of one file have to be stored one after the other",
            )
        )
    files.replace_file(made, path)


@contextmanager
def _making(path: str, made: str) -> Iterator[Any]:
    """The unfinished file to make a dataset in. What HDF5 refuses is an error that names the file, and leaves none."""
    try:
        with files.explained(path, "write"), _opened(made, "a") as file:
            yield file
    except (ValueError, TypeError) as error:
        files.remove(made)
        raise StoreError(
            message(
                f"{path} cannot hold this array",
                got=str(error),
                cure="Give the elements another type, as x.view('i8') of dates, or store them as .npy",
            )
        ) from None
    except BaseException:
        files.remove(made)
        raise


class H5FlatSink(FlatSink):
    """A new dataset without chunks: HDF5 makes room for it, any process writes to it. Other datasets stay."""

    def __init__(self, path: Any, name: str, shape: tuple[int, ...], dtype: Any, overwrite: bool = False) -> None:
        at, kind = files.full_path(path), np.dtype(dtype)
        refuse_objects(at, kind)
        made, self._copied = _prepared(at, name, overwrite)
        with _making(at, made) as file:
            how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            how.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            how.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            dataset = file.create_dataset(name, shape, kind, dcpl=how)
            into = source_of(dataset, at, files.Stamp(1 << 62, 0, 0)) if dataset.size else None
            if into is not None and not isinstance(into, FlatSource):
                raise StoreError(message(f"HDF5 cannot lay out {kind} as NumPy does", cure="Pass chunks="))
        whole = tuple((0, n) for n in shape)
        FileSink.__init__(self, at, tuple(shape), kind, tuple(max(n, 1) for n in shape), None)
        self._at, self.order, self.overwrite = made, None, True
        self.offset = into.offset if into is not None else 0
        if into is not None:
            self.chunks, self._strides = into.chunks, into._strides
        assert region_lengths(at, whole, self.shape) == self.shape

    def finish(self) -> None:
        """Give the file its name."""
        _replace(self._at, self.path, self._copied)


class H5Sink(FileSink):
    """A new dataset with chunks, or a region of one: HDF5 writes it, in this process."""

    whole_chunks = True

    def __init__(
        self,
        path: Any,
        name: str,
        shape: tuple[int, ...],
        dtype: Any,
        overwrite: bool = False,
        chunks: tuple[int, ...] | None = None,
        compress: bool = False,
    ) -> None:
        at, kind = files.full_path(path), np.dtype(dtype)
        refuse_objects(at, kind)
        if chunks is not None:
            check_chunks(at, shape, chunks)
        (self._at, self._copied), self.name = _prepared(at, name, overwrite), name
        how = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if compress else {}
        with _making(at, self._at) as file:
            laid = file.create_dataset(name, shape, kind, chunks=chunks or True, fletcher32=True, **how)
            super().__init__(at, tuple(shape), kind, tuple(laid.chunks), None)

    def put(self, box: Box, block: ND) -> None:
        """Let HDF5 write a block."""
        with h5py.File(self._at, "r+") as file:
            file[self.name][(*(slice(lo, hi) for lo, hi in box), ...)] = block

    def finish(self) -> None:
        """Give the file its name."""
        _replace(self._at, self.path, self._copied)

    def discard(self) -> None:
        """Remove the file."""
        files.remove(self._at)


class H5Region(H5Sink):
    """A part of a chunked dataset, written in place."""

    def __init__(self, into: H5Source, region: Box) -> None:
        lengths = region_lengths(into.path, region, into.shape)
        FileSink.__init__(self, into.path, lengths, into.dtype, into.unit or into.chunks, region)
        self._at, self.name = into.path, into.name
        with files.explained(into.path, "write"), _opened(into.path, "r+"):
            pass  # whether that is allowed

    def finish(self) -> None:
        """What was written is on the disk."""
        files.flush(self.path)

    def discard(self) -> None:
        """What was written stays: it took the place of what was there."""


def new_dataset(
    path: Any, name: str, shape: tuple[int, ...], dtype: Any, overwrite: bool, chunks: Any, compress: bool
) -> FileSink:
    """A sink for a new dataset: without chunks if nothing asks for them."""
    kind = np.dtype(dtype)
    if shape and 0 not in shape and chunks is None and not compress and kind.kind in "biufcS":
        return H5FlatSink(path, name, shape, kind, overwrite)
    if not shape or 0 in shape:
        return H5Small(path, name, shape, kind, overwrite)
    return H5Sink(path, name, shape, kind, overwrite, chunks, compress)


class H5Small(H5Sink):
    """A dataset without axes or elements, which cannot have chunks."""

    whole_chunks = False

    def __init__(self, path: Any, name: str, shape: tuple[int, ...], dtype: Any, overwrite: bool) -> None:
        at = files.full_path(path)
        (self._at, self._copied), self.name = _prepared(at, name, overwrite), name
        with _making(at, self._at) as file:
            file.create_dataset(name, shape, dtype)
        FileSink.__init__(self, at, tuple(shape), np.dtype(dtype), tuple(max(n, 1) for n in shape), None)

    def put(self, box: Box, block: ND) -> None:
        """Let HDF5 write the block."""
        with h5py.File(self._at, "r+") as file:
            file[self.name][(*(slice(lo, hi) for lo, hi in box), ...)] = block


def region_of(into: Source, region: Box) -> FileSink:
    """A sink for a part of a dataset."""
    if isinstance(into, FlatSource):
        return FlatRegion(into, region)
    assert isinstance(into, H5Source)
    return H5Region(into, region)


def opened_by_user(dataset: Any) -> Source | None:
    """A Source for a dataset that the user has opened to read; None if its file can be written to."""
    if dataset.file.mode != "r" or dataset.file.driver not in ("sec2", "stdio") or dataset.dtype.hasobject:
        return None
    path = files.full_path(dataset.file.filename)
    return source_of(dataset, path, files.stamp(path))
