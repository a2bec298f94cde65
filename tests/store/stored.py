"""Sources and sinks of files for the conformance suite: rows of its tables. In: a type. Out: a file, opened."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import h5py
import numpy as np
import zarr

from tests.store.toys import Grown, elements
from tilewise.ir.order import fortran
from tilewise.store.base import Sink, Source, read_box
from tilewise.store.checkpoint import BlockSink, BlockSource
from tilewise.store.formats.flat import FlatRegion, FlatSink, FlatSource
from tilewise.store.formats.hdf5 import H5Source, new_dataset, open_hdf5
from tilewise.store.formats.npy import NpySink, open_npy
from tilewise.store.formats.npz import Packed, open_npz
from tilewise.store.formats.zarr_sink import ZarrRegion, ZarrSink
from tilewise.store.formats.zarr_source import Place, ZarrSource, open_zarr
from tilewise.store.source_slice import Part

Maker = Callable[..., Source]
FOLDER = tempfile.mkdtemp(prefix="tilewise-stores-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
NUMBERS = count()


def new_path(suffix: str) -> str:
    """A path in a folder of its own, so that traces are seen."""
    folder = os.path.join(FOLDER, str(next(NUMBERS)))
    os.mkdir(folder)
    return os.path.join(folder, f"x{suffix}")


def lengths(chunks: Any, shape: Any) -> Any:
    """Chunks that HDF5 takes: none longer than its axis."""
    return tuple(min(c, max(n, 1)) for c, n in zip(chunks, shape, strict=True))


@cache
def npy(shape: Any, chunks: Any, dtype: str, order: Any) -> Source:
    np.save(path := new_path(".npy"), np.asarray(elements(shape, dtype), order="C" if order is None else "F"))
    return open_npy(path)


@cache
def raw(shape: Any, chunks: Any, dtype: str, order: Any) -> Source:
    laid = elements(shape, dtype) if order is None else elements(shape, dtype).transpose(order)
    with open(path := new_path(".bin"), "wb") as file:
        file.write(b"head" + laid.tobytes())
    return FlatSource(path, shape, dtype, 4, order)


@cache
def npz(shape: Any, chunks: Any, dtype: str, order: Any) -> Source:
    np.savez(path := new_path(".npz"), other=np.ones(3), x=elements(shape, dtype))
    found = open_npz(path)["x"]
    assert isinstance(found, FlatSource)
    return found


@cache
def npz_packed(shape: Any, chunks: Any, dtype: str, order: Any) -> Source:
    np.savez_compressed(path := new_path(".npz"), x=elements(shape, dtype))
    found = open_npz(path)["x"]
    assert isinstance(found, Packed)
    return found


def _zarr(path: Any, shape: Any, dtype: str, **how: Any) -> None:
    made = zarr.create_array(path, shape=shape, dtype=dtype, **how)
    made[...] = elements(shape, dtype)


@cache
def zarr_folder(shape: Any, chunks: Any, dtype: str, order: Any) -> Source:
    _zarr(path := new_path(".zarr"), shape, dtype, chunks=chunks)
    found = open_zarr(path)
    assert isinstance(found, ZarrSource)
    return found


@cache
def zarr_sharded(shape: Any, chunks: Any, dtype: str, order: Any) -> Source:
    path = new_path(".zarr")
    _zarr(path, shape, dtype, chunks=chunks, shards=tuple(2 * c for c in chunks) if shape else None)
    found = open_zarr(path)
    assert isinstance(found, Source)
    return found


@cache
def zarr_zip(shape: Any, chunks: Any, dtype: str, order: Any) -> Source:
    store = zarr.storage.ZipStore(path := new_path(".zarr.zip"), mode="w")
    _zarr(store, shape, dtype, chunks=chunks)
    store.close()
    found = open_zarr(path)
    assert isinstance(found, Source)
    return found


@cache
def hdf5(shape: Any, chunks: Any, dtype: str, order: Any) -> Source:
    with h5py.File(path := new_path(".h5"), "w") as file:
        file["a/x"] = elements(shape, dtype)
    found = open_hdf5(path, "a/x")
    assert isinstance(found, FlatSource if 0 not in shape else H5Source)
    return found


@cache
def hdf5_chunked(shape: Any, chunks: Any, dtype: str, order: Any) -> Source:
    with h5py.File(path := new_path(".h5"), "w") as file:
        options = {"chunks": lengths(chunks, shape), "compression": "gzip"} if shape and 0 not in shape else {}
        file.create_dataset("x", data=elements(shape, dtype), **options)
    found = open_hdf5(path, "x")
    assert isinstance(found, Source)
    return found


def part(shape: Any, chunks: Any, dtype: str, order: Any) -> Source:
    return Part(Around(shape, chunks, dtype, order), (2,) * len(shape), (1,) * len(shape), shape)


class Around(Grown):
    """A Grown array with two more on each side."""

    def __init__(self, shape: Any, chunks: Any, dtype: Any, order: Any) -> None:
        super().__init__(tuple(n + 4 for n in shape), chunks, dtype, order)
        self.inner = shape

    def fingerprint(self) -> Any:
        return "around", super().fingerprint()

    def read(self, box: Any, out: Any = None) -> Any:
        super().read(box)
        wide = np.pad(elements(self.inner, self.dtype), 2)
        got = wide[(*(slice(*b) for b in box), ...)]
        if out is None:
            return got
        out[...] = got
        return out

    def __reduce__(self) -> Any:
        return Around, (self.inner, self.chunks, self.dtype, self.order)


@cache
def blocks(shape: Any, chunks: Any, dtype: str, order: Any) -> Source:
    folder = os.path.dirname(new_path(""))
    sink = BlockSink(folder, "x", shape, np.dtype(dtype), order)
    fill(sink, elements(shape, dtype))
    return BlockSource(sink.blocks)


SOURCES: list[Maker] = [
    npy, raw, npz, npz_packed, zarr_folder, zarr_sharded, zarr_zip, hdf5, hdf5_chunked, part, blocks,
]  # fmt: skip
KEEP_ORDER = (raw, part, blocks)  # any order of axes


def fill(sink: Sink, want: Any) -> Any:
    """Write an array to a sink, as it likes it."""
    for box in reversed(list(sink.parts(tuple((0, n) for n in want.shape)))):
        sink.write(box, want[(*(slice(*b) for b in box), ...)])
    return sink.commit()


def npy_sink(shape: Any, dtype: Any) -> Sink:
    return NpySink(new_path(".npy"), shape, dtype, fortran(len(shape)))


def raw_sink(shape: Any, dtype: Any) -> Sink:
    return FlatSink(new_path(".bin"), shape, dtype)


def zarr_sink(shape: Any, dtype: Any) -> Sink:
    return ZarrSink(Place(new_path(".zarr")), shape, dtype, chunks=tuple(min(3, max(n, 1)) for n in shape))


def zarr_zip_sink(shape: Any, dtype: Any) -> Sink:
    return ZarrSink(Place(new_path(".zarr.zip")), shape, dtype)


def zarr_url_sink(shape: Any, dtype: Any) -> Sink:
    return ZarrSink(Place(f"memory://tilewise{next(NUMBERS)}/x.zarr"), shape, dtype)


def hdf5_sink(shape: Any, dtype: Any) -> Sink:
    return new_dataset(new_path(".h5"), "x", shape, dtype, False, None, False)


def hdf5_chunked_sink(shape: Any, dtype: Any) -> Sink:
    chunks = None if not shape or 0 in shape else tuple(min(3, n) for n in shape)
    return new_dataset(new_path(".h5"), "x", shape, dtype, False, chunks, chunks is not None)


def block_sink(shape: Any, dtype: Any) -> Sink:
    return BlockSink(os.path.dirname(new_path("")), "x", shape, np.dtype(dtype), None)


def npy_region(shape: Any, dtype: Any) -> Sink:
    np.save(path := new_path(".npy"), np.zeros([n + 3 for n in shape], dtype))
    return FlatRegion(open_npy(path), tuple((1, n + 1) for n in shape))  # type: ignore[arg-type]


def zarr_region(shape: Any, dtype: Any) -> Sink:
    path = new_path(".zarr")
    zarr.create_array(path, shape=[n + 3 for n in shape], dtype=dtype, chunks=(2,) * len(shape))
    return ZarrRegion(open_zarr(path), tuple((1, n + 1) for n in shape))  # type: ignore[arg-type]


SINKS: list[Callable[..., Sink]] = [
    npy_sink, raw_sink, zarr_sink, zarr_zip_sink, zarr_url_sink, hdf5_sink, hdf5_chunked_sink, block_sink, npy_region,
    zarr_region,
]  # fmt: skip


def read_back(sink: Sink, made: Any) -> Any:
    """What a sink has made, as an array."""
    if isinstance(made, np.ndarray):
        return made
    if isinstance(sink, BlockSink):
        return BlockSource(sink.blocks).whole()
    found: Any
    if isinstance(sink, FlatRegion | NpySink):
        found = open_npy(made)
    elif isinstance(sink, ZarrSink):
        found = open_zarr(sink.place.path)
    elif made.endswith(".h5"):
        found = open_hdf5(made, "x")
    else:
        found = FlatSource(made, sink.shape, sink.dtype)
    out = np.empty([n for n in sink.shape], sink.dtype)
    starts = getattr(sink, "starts", None) or (0,) * len(sink.shape)
    read_box(found, tuple((s, s + n) for s, n in zip(starts, sink.shape, strict=True)), out)
    return out
