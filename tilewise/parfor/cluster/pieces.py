"""A part of an array that can be used with the subscripts of the whole. In: an array, a box. Out: an array as large.

A worker that reads only some rows or columns is sent these. The body has the shape and the subscripts of the whole
array, so the piece is placed where it would lie: cells outside of the box have no memory, and the analysis of the loop
has proved that nobody reads them. Strides are those of an array with gaps wherever the box cuts the original, so that
NumPy and BLAS take the same ways through memory, and give the same bits, as with the whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Box = tuple[range, ...]


def taken(array: Array, box: Box) -> Array:
    """The cells of a box, with a gap behind each axis that the box cuts (but the outermost)."""
    order = _order(array)
    sizes = [len(r) for r in box]
    padded = [n + (n < array.shape[d] and d != order[0]) for d, n in enumerate(sizes)]
    memory = np.zeros([padded[d] for d in order], dtype=array.dtype).transpose(np.argsort(order))
    inside = tuple(slice(0, n) for n in sizes)
    memory[inside] = array[tuple(slice(r.start, r.stop) for r in box)]
    return memory


class _Placed:
    """What NumPy makes an array of: an address outside of the memory that is read."""

    def __init__(self, piece: Array, shape: tuple[int, ...], address: int) -> None:
        self.piece = piece
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": piece.dtype.str,
            "strides": piece.strides,
            "data": (address, True),
        }


def placed(piece: Array, box: Box, shape: tuple[int, ...]) -> Array:
    """An array of the shape of the whole, whose cells in the box are the piece's. No other cell may be read.

    >>> whole = np.arange(12.0).reshape(3, 4)
    >>> box = (range(0, 3), range(1, 3))
    >>> placed(taken(whole, box), box, whole.shape)[:, 2]
    array([ 2.,  6., 10.])
    """
    address = piece.__array_interface__["data"][0] - sum(r.start * s for r, s in zip(box, piece.strides, strict=True))
    return np.asarray(_Placed(piece, shape, address))


def _order(array: Array) -> list[int]:
    """The axes of an array from the outermost in memory on."""
    return sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))
