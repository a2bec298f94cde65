"""Arrays in files. In: paths. Out: Arrays that are read when they are needed; files written from where blocks are.

Loaded when first asked for. What a kind of store needs is behind its door (store/formats/kinds.py).
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewise.api.create import asarray
from tilewise.api.data.checkpoints import open_checkpoint
from tilewise.api.tools import evaluate
from tilewise.array.handle import Array, from_source
from tilewise.array.storing import settle_readers, write
from tilewise.errors import StoreError, message
from tilewise.ir.order import by_strides, fortran
from tilewise.layout import Box
from tilewise.store import files
from tilewise.store.base import Sink, Source
from tilewise.store.chunks import ZARR_CHUNK_BYTES
from tilewise.store.formats import kinds
from tilewise.store.formats.flat import FlatRegion, FlatSink, FlatSource, row_chunks
from tilewise.store.formats.npy import NpySink, open_npy
from tilewise.store.formats.npz import open_npz, write_npz

Named = dict[str, Array]  # the arrays of a store that holds several, by name
COLUMNS = ("parquet", "arrow", "csv")
Options = Mapping[str, Any]


def open(path: Any, name: str | None = None, *, storage_options: Options | None = None) -> Any:
    """An array in a file, which is read when it is needed, and only as far. The kind of file is found out.

    A file of several arrays (.npz, HDF5, a Zarr group, tables) gives a dict of them; `name` asks for one.

    >>> import numpy as np, tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(12.0).reshape(3, 4))
    >>> x = tw.open(path)
    >>> x.shape, float(x[:, 1].sum())
    ((3, 4), 15.0)
    """
    kind = kinds.find(path)
    if kind == "npy":
        return _only(from_npy(path), name, path)
    if kind == "npz":
        return from_npz(path, name)
    if kind == "checkpoint":
        return open_checkpoint(path, name)
    if kind == "zarr":
        return from_zarr(path, name, storage_options=storage_options)
    if kind == "hdf5":
        return from_hdf5(path, name)
    if kind == "images":
        return _only(from_images(path), name, path)
    return {"parquet": from_parquet, "arrow": from_arrow, "csv": from_csv}[kind](path, name)


def _only(x: Array, name: str | None, path: Any) -> Array:
    if name is not None:
        raise StoreError(message(f"{files.full_path(path)} holds one array, which has no name", got=f"name={name!r}"))
    return x


def _arrays(found: Source | dict[str, Source], name: str | None, path: Any) -> Any:
    """An Array for a Source; of several those asked for."""
    if isinstance(found, Source):
        return from_source(found)
    if name is None:
        return {k: from_source(s) for k, s in found.items()}
    if name not in found:
        has = ", ".join(found) or "none of numbers"
        raise StoreError(message(f"{os.fspath(path)} has no array {name!r}", cure=f"It has {has}"))
    return from_source(found[name])


def from_npy(path: Any) -> Array:
    """The array of a .npy file, read when it is needed.

    >>> import numpy as np, tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(3))
    >>> tw.from_npy(path) + 1
    Array([1, 2, 3])
    """
    return from_source(open_npy(path))


def from_npz(path: Any, name: str | None = None) -> Any:
    """The arrays of a .npz file by name, or one of them.

    >>> import numpy as np, tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npz")
    >>> np.savez(path, a=np.arange(3), b=np.ones(2))
    >>> sorted(tw.from_npz(path)), tw.from_npz(path, "a")
    (['a', 'b'], Array([0, 1, 2]))
    """
    return _arrays(dict(open_npz(path)), name, path)


def from_raw(path: Any, dtype: Any, shape: Any = None, *, offset: int = 0, order: str = "C") -> Array:
    """Numbers in a file without a header; without a shape, all that follow the offset.

    >>> import numpy as np, tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.bin")
    >>> np.arange(6, dtype="f4").tofile(path)
    >>> tw.from_raw(path, "f4", (2, 3))
    Array([[0., 1., 2.],
           [3., 4., 5.]], dtype=float32)
    """
    kind, name = np.dtype(dtype), files.full_path(path)
    stamp = files.stamp(name)
    if not 0 <= offset <= stamp.size:
        raise StoreError(message(f"elements begin within {name}", got=f"offset={offset}, of {stamp.size:,} bytes"))
    if shape is None:
        if (stamp.size - offset) % max(kind.itemsize, 1):
            raise StoreError(
                message(
                    f"{name} does not hold a whole number of {kind}",
                    got=f"{stamp.size - offset:,} bytes",
                    cure="Pass another dtype, or a shape",
                )
            )
        shape = ((stamp.size - offset) // kind.itemsize,)
    dims = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)
    if min(dims, default=0) < 0:
        raise ValueError(f"negative dimensions are not allowed, got {dims}")
    return from_source(FlatSource(name, dims, kind, offset, fortran(len(dims)) if order == "F" else None, stamp))


def from_zarr(path: Any, name: str | None = None, *, storage_options: Options | None = None) -> Any:
    """A Zarr array in a folder, a zip file or at a URL; of a group all arrays by name, or one of them.

    `storage_options` go to fsspec as they are, and are never shown.

    >>> import tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.zarr")
    >>> tw.arange(6).reshape(2, 3).store(path, chunks=(1, 3))
    >>> tw.from_zarr(path)[1]
    Array([3, 4, 5])
    """
    return _arrays(kinds.door("zarr").open_zarr(path, name, storage_options), None, path)


def from_hdf5(path: Any, name: str | None = None) -> Any:
    """The datasets of an HDF5 file by name, or one of them.

    >>> import tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.h5")
    >>> tw.arange(3).store(path, name="group/x")
    >>> tw.from_hdf5(path, "group/x")
    Array([0, 1, 2])
    """
    return _arrays(kinds.door("hdf5").open_hdf5(path, name), None, path)


def from_parquet(path: Any, column: str | None = None, *, dtypes: Options | None = None) -> Any:
    """The columns of numbers of a Parquet file by name, or one of them; missing values of floats are NaN.

    >>> import tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.parquet")
    >>> tw.save(path, {"a": tw.arange(3), "b": tw.ones(3)})
    >>> tw.from_parquet(path, "a")
    Array([0, 1, 2])
    """
    return _arrays(kinds.door("parquet").open_parquet(path, dtypes, column), column, path)


def from_arrow(path: Any, column: str | None = None, *, dtypes: Options | None = None) -> Any:
    """The columns of numbers of an Arrow (Feather) file by name, or one of them.

    >>> import tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.arrow")
    >>> tw.save(path, {"a": tw.arange(3)})
    >>> tw.from_arrow(path, "a")
    Array([0, 1, 2])
    """
    return _arrays(kinds.door("arrow").open_ipc(path, dtypes, column), column, path)


def from_csv(
    path: Any,
    column: str | None = None,
    *,
    dtypes: Options | None = None,
    delimiter: str | None = None,
    header: bool = True,
) -> Any:
    """The columns of numbers of a CSV file by name, or one of them; read by Arrow, in blocks of lines.

    Types are those of the first lines, unless `dtypes` says others. Without a header columns are f0, f1, ….

    >>> import tilewise as tw, tempfile, os, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "x.csv")
    >>> _ = path.write_text("a,b\\n1,0.5\\n2,0.25\\n")
    >>> tw.from_csv(path, "b")
    Array([0.5 , 0.25])
    """
    return _arrays(kinds.door("csv").open_csv(path, dtypes, column, delimiter, header), column, path)


def from_images(paths: Any) -> Array:
    """Images of one size as a stack: a list of paths, a pattern ("scan/*.png"), a folder, or one image.

    >>> import numpy as np, tilewise as tw, tempfile, os
    >>> from PIL import Image
    >>> folder = tempfile.mkdtemp()
    >>> for k in range(3):
    ...     Image.fromarray(np.full((4, 5), k, "u1")).save(os.path.join(folder, f"{k}.png"))
    >>> tw.from_images(os.path.join(folder, "*.png")).max(axis=(1, 2))
    Array([0, 1, 2], dtype=uint8)
    """
    if isinstance(paths, str | os.PathLike):
        text = os.fspath(paths)
        if os.path.isdir(text):
            paths = sorted(os.path.join(text, k) for k in os.listdir(text) if kinds.by_suffix(k) == "images")
        else:
            paths = [text] if os.path.exists(text) else sorted(glob.glob(text))
        if not paths:
            raise StoreError(message(f"no images at {text}", cure="Check the path or the pattern"))
    return from_source(kinds.door("images").open_images(list(paths)))


# -- writing ----------------------------------------------------------------------------------------------------------


def save(
    path: Any,
    x: Any,
    *,
    overwrite: bool | None = None,
    kind: str | None = None,
    name: str | None = None,
    chunks: Any = None,
    shards: Any = None,
    compress: bool | None = None,
    storage_options: Options | None = None,
) -> None:
    """Write an array, or a dict of them, to a file of the kind that its suffix names (see `Array.store`)."""
    kind = kind or kinds.by_suffix(path)
    replaces = kind in ("npy", "npz") if overwrite is None else overwrite
    if isinstance(x, Mapping):
        _save_several(path, dict(x), kind, replaces, compress, storage_options, chunks)
    else:
        store(
            asarray(x), path, name=name, kind=kind, overwrite=replaces, chunks=chunks, shards=shards, compress=compress,
            storage_options=storage_options,
        )  # fmt: skip


def _save_several(
    path: Any, arrays: dict[str, Any], kind: str | None, overwrite: bool, compress: Any, options: Any, chunks: Any
) -> None:
    if kind in ("zarr", "hdf5"):
        at = os.fspath(path)
        if not overwrite and os.path.lexists(at):
            raise files.in_the_way(files.full_path(at))
        for name, x in arrays.items():
            store(asarray(x), path, name=name, kind=kind, overwrite=overwrite, chunks=chunks, compress=compress,
                  storage_options=options)  # fmt: skip
        return
    if kind not in ("npz", *COLUMNS):
        raise StoreError(
            message(
                f"{os.fspath(path)} would hold several arrays, which only some files can",
                cure="Use .npz, .h5, .zarr, .parquet, .arrow or .csv",
            )
        )
    settle_readers(files.full_path(path))
    here = {k: np.asarray(v) for k, v in arrays.items()}
    if kind == "npz":
        write_npz(path, here, overwrite, bool(compress))
    else:
        kinds.door(kind).write_table(path, here, overwrite, kind)


def store(
    x: Array,
    path: Any,
    *,
    name: str | None = None,
    kind: str | None = None,
    region: Any = None,
    overwrite: bool = False,
    chunks: Any = None,
    shards: Any = None,
    compress: bool | None = None,
    storage_options: Options | None = None,
) -> None:
    """Write the array to a file, whole or not at all, in parallel from where its blocks are.

    The suffix says which kind: .npy, .zarr, .zarr.zip, .h5, .parquet, .arrow, .csv, .raw (elements alone), or `kind`
    does. Something that exists stays, unless `overwrite`; `region` (slices) writes into a part of an array that exists.
    `name` is that of a dataset, a column, or an array in a group. `chunks`, `shards` and `compress` are for Zarr and
    HDF5, `storage_options` for URLs.

    >>> import tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> tw.zeros((2, 3)).store(path)
    >>> tw.ones(3).store(path, region=(1,))
    >>> tw.open(path)
    Array([[0., 0., 0.],
           [1., 1., 1.]])
    """
    kind = kind or kinds.by_suffix(path) or _refused(path)
    url = kind == "zarr" and files.is_url(path)
    at = os.fspath(path) if url else files.full_path(path)
    if region is not None:
        into = _source_at(at, name, kind, storage_options, x)
        box, x = _region(region, into.shape, x)
        if x.dtype != into.dtype:
            x = x.astype(into.dtype)
        settle_readers(at)
        write(x, _region_sink(into, box))
        return
    if kind in ("npz", *COLUMNS):
        _save_several(path, {name or "x": x}, kind, overwrite, compress, None, None)
        return
    if url and overwrite:  # what is there is gone before anything can be written
        settle_readers(at)
        evaluate(x)
    sink = _sink(
        x, at, kind, name, overwrite, _lengths(chunks, x.ndim), _lengths(shards, x.ndim), compress, storage_options
    )
    with sink:
        if overwrite:
            settle_readers(at)
        write(x, sink)


class Outline(Sink):
    """What is known of a sink before anything is written: who may write, and which chunks must be written whole."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], chunks: Any, anyone: bool, whole: bool) -> None:
        self.shape, self.dtype, self.opened_by_workers, self.whole_chunks = shape, dtype, anyone, whole
        self.chunks = chunks or tuple(max(n, 1) for n in shape)

    def write(self, box: Box, block: Any) -> None:
        """Nothing is written."""
        raise NotImplementedError

    commit = abort = write  # type: ignore[assignment]


def outline(path: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Sink:
    """The sink that `x.store(path)` would write to."""
    kind = kinds.by_suffix(path) or _refused(path)
    if kind in ("npy", "raw", "hdf5"):
        return Outline(shape, dtype, row_chunks(shape, dtype.itemsize), kind != "hdf5" or 0 not in shape, False)
    chunks = row_chunks(shape, dtype.itemsize, None, ZARR_CHUNK_BYTES) if kind == "zarr" else None
    return Outline(shape, dtype, chunks, kind == "zarr" and not os.fspath(path).endswith(".zip"), True)


def _refused(path: Any) -> str:
    known = ", ".join(sorted({k for k, v in kinds.SUFFIXES.items() if v != "images"}))
    raise StoreError(message(f"the name {os.fspath(path)!r} does not say which kind of file to write",
                             cure=f"End it in one of {known}, or pass kind="))  # fmt: skip


def _sink(
    x: Array,
    path: str,
    kind: str,
    name: str | None,
    overwrite: bool,
    chunks: Any,
    shards: Any,
    compress: Any,
    options: Any,
) -> Sink:
    """A sink for a new file of a kind."""
    shape, dtype = x.shape, x.dtype
    if kind in ("npy", "raw"):
        order = by_strides(shape, x.strides)
        if kind == "npy":
            return NpySink(path, shape, dtype, order, overwrite)
        return FlatSink(path, shape, dtype, None, b"", overwrite)
    if kind == "hdf5":
        made: Sink = kinds.door("hdf5").new_dataset(path, name or "x", shape, dtype, overwrite, chunks, bool(compress))
        return made
    if kind == "zarr":
        place = kinds.door("zarr").Place(path, name or "", options)
        made = kinds.door("zarr sink").ZarrSink(place, shape, dtype, overwrite, chunks, shards, compress is not False)
        return made
    raise StoreError(message(f"{kind} files are read, not written", cure="Use .npy, .zarr or .h5"))


def _lengths(chunks: Any, ndim: int) -> tuple[int, ...] | None:
    """Lengths of chunks as a tuple; one number is for all axes."""
    if chunks is None:
        return None
    return (chunks,) * ndim if isinstance(chunks, int) else tuple(chunks)


def _source_at(path: str, name: str | None, kind: str, options: Any, x: Array) -> Source:
    """The array of which a region is written."""
    if kind == "npy":
        return open_npy(path)
    if kind == "raw":
        raise StoreError(message("a region of a file without a header has no shape", cure="Use .npy, .zarr or .h5"))
    if kind in ("hdf5", "zarr"):
        door = kinds.door(kind)
        found = door.open_hdf5(path, name or "x") if kind == "hdf5" else door.open_zarr(path, name, options)
        if isinstance(found, Source):
            return found
        raise StoreError(
            message(f"{path} holds several arrays", got="no name", cure=f"name= one of {', '.join(found)}")
        )
    raise StoreError(message(f"regions of {kind} files cannot be written", cure="Use .npy, .zarr or .h5"))


def _region_sink(into: Source, box: Box) -> Sink:
    if isinstance(into, FlatSource):
        return FlatRegion(into, box)
    made: Sink
    if type(into).__name__ == "H5Source":
        made = kinds.door("hdf5").region_of(into, box)
    else:
        made = kinds.door("zarr sink").ZarrRegion(into, box)
    return made


def _region(region: Any, shape: tuple[int, ...], x: Array) -> tuple[Box, Array]:
    """The box that slices or numbers mean, as NumPy would assign to it, and the array as it is written there."""
    given = region if isinstance(region, tuple) else (region,)
    if any(part is ... for part in given):
        here = next(k for k, part in enumerate(given) if part is ...)
        given = *given[:here], *[slice(None)] * (len(shape) - len(given) + 1), *given[here + 1 :]
    if len(given) > len(shape):
        raise StoreError(message(f"a region has at most {len(shape)} slices", got=str(region)))
    box, dims = [], []
    for k, n in enumerate(shape):
        part = given[k] if k < len(given) else slice(None)
        if isinstance(part, slice):
            low, high, step = part.indices(n)
            if step != 1:
                raise StoreError(message("a region is made of slices without steps", got=str(part)))
            box.append((low, max(low, high)))
            dims.append(max(low, high) - low)
        else:
            try:
                at = range(n)[part]
            except (TypeError, IndexError) as error:
                raise StoreError(
                    message("a region is made of slices and numbers within the array", got=f"{part!r}: {error}")
                ) from None
            box.append((at, at + 1))
    wide: Any = np.broadcast_to(x, tuple(dims)) if x.shape != tuple(dims) else x  # type: ignore[call-overload]
    return tuple(box), wide.reshape([hi - lo for lo, hi in box])
