"""np.save. In: a file and an array. Out: the file; other kinds than NumPy's are for stores.py, loaded when needed."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.later import later

stores = later("tilewise.api.data.stores")


def save(file: Any, arr: Any, allow_pickle: bool | None = None, **options: Any) -> None:
    """Write an array to a file, whole or not at all. As `numpy.save`, a .npy file that exists is replaced.

    Suffixes of other kinds (.zarr, .h5, .parquet, .csv, .npz, …) write these, and options are those of `Array.store`;
    of files that hold several arrays, `arr` may be a dict.

    >>> import tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> tw.save(path, tw.arange(3) * 2)
    >>> tw.load(path)
    Array([0, 2, 4])
    """
    if hasattr(file, "write") or (allow_pickle and not isinstance(arr, dict) and np.asarray(arr).dtype.hasobject):
        np.save(file, rec.unwrap(arr), allow_pickle=bool(allow_pickle))
        return
    path = os.fspath(file)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if (
        not options.get("kind")
        and not isinstance(arr, dict)
        and stores.kinds.by_suffix(path) in (None, "raw", "images")
    ):
        path += ".npy"  # as NumPy
    stores.save(path, arr, **options)


class _Later:
    """A method whose module is loaded when it is first asked for."""

    def __get__(self, x: Any, owner: Any) -> Any:
        Array.store = stores.store
        return getattr(owner if x is None else x, "store")  # noqa: B009


Array.store = _Later()
