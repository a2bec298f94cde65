"""Kinds of stores, by name, by suffix and by their first bytes. In: a path. Out: the kind; its door, opened when asked.

A library that a kind needs is an extra of the package; its module is loaded here and nowhere else.
"""

from __future__ import annotations

import importlib
import os
import zipfile
from typing import Any

from tilewise.errors import StoreError, message
from tilewise.store import files
from tilewise.store.checkpoint import is_checkpoint

# By kind: the module, the library it needs, the extra that brings it.
MODULES: dict[str, tuple[str, str | None, str | None]] = {
    "npy": ("tilewise.store.formats.npy", None, None),
    "npz": ("tilewise.store.formats.npz", None, None),
    "raw": ("tilewise.store.formats.flat", None, None),
    "zarr": ("tilewise.store.formats.zarr_source", "zarr", "zarr"),
    "zarr sink": ("tilewise.store.formats.zarr_sink", "zarr", "zarr"),
    "hdf5": ("tilewise.store.formats.hdf5", "h5py", "hdf5"),
    "parquet": ("tilewise.store.formats.arrow", "pyarrow", "arrow"),
    "arrow": ("tilewise.store.formats.arrow", "pyarrow", "arrow"),
    "csv": ("tilewise.store.formats.arrow", "pyarrow", "arrow"),
    "images": ("tilewise.store.formats.images", "PIL", "images"),
}
SUFFIXES = {
    ".npy": "npy", ".npz": "npz", ".zarr": "zarr", ".zarr.zip": "zarr", ".h5": "hdf5", ".hdf5": "hdf5", ".he5": "hdf5",
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".csv": "csv", ".tsv": "csv",
    ".raw": "raw", ".bin": "raw", ".png": "images", ".jpg": "images", ".jpeg": "images", ".tif": "images",
    ".tiff": "images", ".bmp": "images", ".webp": "images", ".gif": "images",
}  # fmt: skip
MAGIC = {
    b"\x93NUMPY": "npy", b"PK\x03\x04": "npz", b"PK\x05\x06": "npz", b"\x89HDF": "hdf5", b"PAR1": "parquet",
    b"ARROW1": "arrow",
}  # fmt: skip


def door(kind: str) -> Any:
    """The module of a kind; an error that names the extra if its library is not there."""
    name, library, extra = MODULES[kind]
    if library is not None:
        need(library, extra or library)
    return importlib.import_module(name)


def need(library: str, extra: str) -> Any:
    """A library of an extra."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise StoreError(
            message(f"{library} cannot be loaded", got=str(error), cure=f"Install it: pip install tilewise[{extra}]")
        ) from None


def by_suffix(path: Any) -> str | None:
    """The kind that a name says; None if it says none.

    >>> by_suffix("a.zarr"), by_suffix("s3://b/a.zarr/"), by_suffix("a.h5"), by_suffix("a")
    ('zarr', 'zarr', 'hdf5', None)
    """
    text = os.fsdecode(path).lower().rstrip("/")
    return next(
        (kind for suffix, kind in sorted(SUFFIXES.items(), key=lambda s: -len(s[0])) if text.endswith(suffix)), None
    )


def find(path: Any) -> str:
    """The kind of something that exists: by its first bytes, then by its name."""
    if files.is_url(path) and by_suffix(path) in (None, "zarr"):
        return "zarr"
    name = files.full_path(path)
    files.stamp(name)  # whether it is there
    if os.path.isdir(name):
        if is_checkpoint(name):
            return "checkpoint"
        if any(os.path.exists(os.path.join(name, k)) for k in ("zarr.json", ".zarray", ".zgroup")):
            return "zarr"
        if any(by_suffix(k) == "images" for k in os.listdir(name)):
            return "images"
        raise unknown(name)
    with files.explained(name, "read"), open(name, "rb") as file:
        first = file.read(8)
    found = next((kind for magic, kind in MAGIC.items() if first.startswith(magic)), None)
    if found == "npz" and _is_zarr(name):
        return "zarr"
    said = by_suffix(name)
    if found is None and said in ("csv", "images"):
        return said
    if found is None and said not in (None, "raw"):
        raise StoreError(
            message(f"{name} is no {said} file, or damaged", got=f"first bytes {first!r}", cure="Restore it")
        )
    if found is None:
        raise unknown(name)
    return found


def _is_zarr(name: str) -> bool:
    try:
        with zipfile.ZipFile(name) as archive:
            return any(k.rsplit("/", 1)[-1] in ("zarr.json", ".zarray", ".zgroup") for k in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def unknown(name: str) -> StoreError:
    """The error for something that is no array as far as can be seen."""
    return StoreError(
        message(
            f"{name} is not an array in a format that is known",
            cure="Check the path; bytes without a header are read by tw.from_raw(path, dtype, shape)",
        )
    )
