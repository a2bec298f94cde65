"""NumPy's files. In: paths of .npy files. Out: Sources and Sinks; the header is NumPy's, the elements are flat.py's."""

from __future__ import annotations

from ast import literal_eval
from io import BytesIO
from operator import index
from struct import error as StructError
from struct import unpack
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from tilewise.errors import StoreError, message
from tilewise.ir.order import Order, fortran
from tilewise.store import files
from tilewise.store.formats.flat import FlatSink, FlatSource, refuse_objects


def open_npy(path: Any) -> FlatSource:
    """A .npy file as a Source."""
    name = files.full_path(path)
    stamp = files.stamp(name)
    with files.explained(name, "read"), open(name, "rb") as file:
        shape, dtype, order, offset = read_head(file, name)
    return FlatSource(name, shape, dtype, offset, order, stamp)


def read_head(file: BinaryIO, name: str) -> tuple[tuple[int, ...], np.dtype[Any], Order, int]:
    """Shape, dtype and order in the header of a file or a member of an archive, and where the elements begin."""
    try:
        major, _ = npy_format.read_magic(file)
        (length,) = unpack("<H", file.read(2)) if major == 1 else unpack("<I", file.read(4))
        fields = literal_eval(file.read(length).decode("utf8" if major == 3 else "latin1"))
        dtype = np.dtype(npy_format.descr_to_dtype(fields["descr"]))
        shape = tuple(index(n) for n in fields["shape"])
        is_fortran = fields["fortran_order"]
    except (ValueError, EOFError, SyntaxError, TypeError, KeyError, StructError) as error:
        raise StoreError(
            message(f"{name} is no array in NumPy's format", got=str(error), cure="Check the path and the file's kind")
        ) from None
    refuse_objects(name, dtype, reading=True)
    return shape, dtype, fortran(len(shape)) if is_fortran else None, file.tell()


def head(shape: tuple[int, ...], dtype: np.dtype[Any], order: Order) -> bytes:
    """The header of a file, as NumPy writes it."""
    fields = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": order is not None, "shape": shape}
    made = BytesIO()
    try:
        npy_format.write_array_header_1_0(made, fields)
    except ValueError:  # very many fields
        npy_format.write_array_header_2_0(made, fields)
    return made.getvalue()


class NpySink(FlatSink):
    """A new .npy file, in C or Fortran order."""

    def __init__(
        self, path: Any, shape: tuple[int, ...], dtype: Any, order: Order = None, overwrite: bool = False
    ) -> None:
        kind = np.dtype(dtype)
        refuse_objects(files.full_path(path), kind)
        order = order if order == fortran(len(shape)) else None
        super().__init__(path, shape, kind, order, head(tuple(shape), kind, order), overwrite)
