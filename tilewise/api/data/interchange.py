"""Arrays from and to other libraries, part by part. In: Dask arrays, xarray's, Ray datasets. Out: Arrays, and back.

Loaded when first asked for; each library is loaded by its own function.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from tilewise.array.handle import Array, from_source
from tilewise.errors import StoreError, message
from tilewise.store.arrays import ArraySource
from tilewise.store.base import Source
from tilewise.store.foreign_arrays import Sliced
from tilewise.store.formats.kinds import need

CHUNK_BYTES = 32 << 20  # of Dask's blocks and Ray's


def from_dask(x: Any) -> Array:
    """An Array of a Dask array: Dask computes the blocks that are needed, when they are.

    >>> import dask.array as da, tilewise as tw
    >>> tw.from_dask(da.ones((4, 6), chunks=2) * 2).sum()
    np.float64(48.0)
    """
    if any(n != n for lengths in x.chunks for n in lengths):
        raise StoreError(message("the chunks of this Dask array are not known", cure="Call x.compute_chunk_sizes()"))
    borders = tuple(tuple(accumulate(lengths, initial=0)) for lengths in x.chunks)

    def take(at: tuple[slice, ...]) -> Any:
        return x[at].compute()

    return from_source(Sliced(take, x.shape, x.dtype, borders, x.name))


def to_dask(x: Array, chunks: Any = None) -> Any:
    """A Dask array of an Array, which is evaluated when Dask needs the first block.

    >>> import tilewise as tw
    >>> tw.to_dask(tw.arange(6.0), chunks=3).sum().compute()
    np.float64(15.0)
    """
    dask = need("dask.array", "dask")
    limit = CHUNK_BYTES if chunks is None else None
    chosen = dask.core.normalize_chunks("auto" if chunks is None else chunks, x.shape, limit=limit, dtype=x.dtype)
    return dask.from_array(x, chunks=chosen, name=False, asarray=False).map_blocks(np.asarray, dtype=x.dtype)


def from_xarray(x: Any) -> Array:
    """An Array of the values of an xarray.DataArray: from Dask or a file, part by part; else a snapshot.

    >>> import xarray as xr, tilewise as tw
    >>> tw.from_xarray(xr.DataArray([1.0, 2.0], dims="t")) * 2
    Array([2., 4.])
    """
    data = x.variable._data
    if type(data) is Array:
        return data
    if x.chunks is not None:
        return from_dask(x.data)
    borders = tuple((0, n) for n in x.shape)

    def take(at: tuple[slice, ...]) -> Any:
        return x.variable[at].values

    if isinstance(data, np.ndarray):
        return from_source(_snapshot(data))
    return from_source(Sliced(take, x.shape, x.dtype, borders, ("xarray", id(data), x.name)))


def _snapshot(data: Any) -> Source:
    """A copy: the elements of a Source never change."""
    return ArraySource(np.array(data, copy=True, order="K"))


def to_xarray(x: Array, dims: Any = None, coords: Any = None, name: Any = None) -> Any:
    """An xarray.DataArray on an Array, which stays lazy.

    >>> import tilewise as tw
    >>> float(tw.to_xarray(tw.ones((2, 3)), dims=("t", "x")).mean("t").sum())
    3.0
    """
    return need("xarray", "xarray").DataArray(x, coords=coords, dims=dims, name=name)


def from_ray(dataset: Any, column: str | None = None) -> Array:
    """An Array of a column of a Ray dataset (of its only one, if it has no other); blocks are fetched as needed.

    >>> tw.from_ray(ray.data.from_numpy(np.arange(3.0))).sum()  # doctest: +SKIP
    np.float64(3.0)
    """
    ray = need("ray", "ray")
    names = dataset.columns()
    if column is None and len(names) != 1:
        raise StoreError(message("this dataset has several columns", got=", ".join(names), cure="Name one: column="))
    refs = dataset.select_columns([column or names[0]]).to_numpy_refs(column=column or names[0])
    shape_of = ray.remote(num_cpus=0.1)(lambda block: (np.shape(block), np.asarray(block).dtype.str))
    types = ray.get([shape_of.remote(r) for r in refs])
    kept = [(r, s) for r, (s, _) in zip(refs, types, strict=True) if s[0]]
    dtype = np.result_type(*[np.dtype(t) for s, t in types if s[0]]) if kept else np.dtype(types[0][1])
    row = kept[0][1][1:] if kept else types[0][0][1:]
    starts = tuple(accumulate((s[0] for _, s in kept), initial=0))

    def take(at: tuple[slice, ...]) -> Any:
        group = next(k for k in range(len(kept)) if starts[k] <= at[0].start < starts[k + 1])
        first = starts[group]
        return np.asarray(ray.get(kept[group][0]))[(slice(at[0].start - first, at[0].stop - first), *at[1:])]

    borders = (starts, *((0, n) for n in row))
    return from_source(Sliced(take, (starts[-1], *row), dtype, borders, ("ray", id(dataset))))


def to_ray(x: Array) -> Any:
    """A Ray dataset of an Array's rows, in blocks.

    >>> tw.to_ray(tw.arange(10.0) * 2).count()  # doctest: +SKIP
    10
    """
    data = need("ray.data", "ray")
    rows = max(1, CHUNK_BYTES // max(1, x.nbytes // max(1, len(x))))
    blocks = [np.asarray(x[k : k + rows]) for k in range(0, len(x), rows)]
    return data.from_numpy(blocks)
