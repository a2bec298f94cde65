"""Arrays that lie in files and that the user has opened: memory maps, HDF5 datasets, Zarr arrays.

In: such an object. Out: an Array that reads the file, if it was opened to read only. Of one that can be written to, a
copy is made, as of other arrays, if memory has room for it.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np

from tilewise.array.cell import ND, address
from tilewise.array.handle import Array, from_source, on_cell
from tilewise.array.session import current_session
from tilewise.later import later
from tilewise.ops.views import strided
from tilewise.store import files
from tilewise.store.base import Source

flat, kinds = later("tilewise.store.formats.flat"), later("tilewise.store.formats.kinds")


def opened(x: Any) -> Array | None:
    """An Array of something in a file; None if it is none, or is to be copied."""
    if isinstance(x, np.memmap):
        return _mapped(x)
    library = type(x).__module__.partition(".")[0]
    if library == "h5py" and library in sys.modules and isinstance(x, sys.modules["h5py"].Dataset):
        return _of(kinds.door("hdf5").opened_by_user(x), x, f"{x.file.filename}[{x.name!r}]")
    if library == "zarr" and hasattr(x, "read_only") and hasattr(x, "metadata"):
        return _of(kinds.door("zarr").opened_by_user(x), x, "a Zarr array")
    return None


def _of(source: Source | None, x: Any, what: str) -> Array | None:
    if source is not None:
        return from_source(source)
    _check(int(np.prod(x.shape, dtype=np.int64)) * x.dtype.itemsize, what)
    return None


def _check(nbytes: int, what: str) -> None:
    session = current_session()
    files.check_snapshot(nbytes, None if session is None else session.memory, what)


def _mapped(x: Any) -> Array | None:
    """A memory map, or a view of one."""
    base: Any = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    if not isinstance(base.base, mmap.mmap) or getattr(base, "filename", None) is None:
        return None
    if base.mode != "r" or base.dtype.hasobject:
        _check(x.nbytes, str(base.filename))
        return None
    order = None if base.flags.c_contiguous else tuple(range(base.ndim - 1, -1, -1))
    whole = from_source(flat.FlatSource(base.filename, base.shape, base.dtype, base.offset, order))
    if base is x or (x.shape == base.shape and x.strides == base.strides and x.dtype == base.dtype):
        return whole
    meta: ND = whole._cell.meta()
    view = strided(meta, address(x) - address(base), x.shape, x.strides, x.dtype)
    return on_cell(whole._cell, view)
