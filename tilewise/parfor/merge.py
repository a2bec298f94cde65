"""Results of workers into one. In: arrays as workers left them. Out: which cells they changed, and the result.

Cells are compared by their bits with what was there before: a cell that was set to zero counts, a NaN that stayed does
not, and -0.0 differs from 0.0. Where the result was all zero before the loop nothing has to be compared: the cells
that are not zero count. Iterations are independent, so no cell is changed by two workers (in the unchecked case the
later task wins).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Changes(NamedTuple):
    """Cells that a worker changed, by their number in the memory of the array."""

    cells: Any  # None: all
    values: Any


def _bits(array: Array) -> Array:
    """The memory of an array, cell by cell, as integers or bytes."""
    flat = _memory(array)
    size = array.dtype.itemsize
    if size in (1, 2, 4, 8):
        return flat.view(f"u{size}")
    return flat.view(np.uint8).reshape(flat.size, size)


def _memory(array: Array) -> Array:
    """A contiguous array as one dimension, in the order of its memory."""
    return array.reshape(-1, order="F" if array.flags.f_contiguous else "C")


def changes(after: Array, before: Array | None) -> Changes:
    """The cells that differ from what was before (None: from zero).

    >>> changes(np.array([0.0, 5.0, np.nan]), np.array([3.0, 5.0, np.nan]))
    Changes(cells=array([0]), values=array([0.]))
    """
    if after.dtype.hasobject:
        flat, old = _memory(after), _memory(before) if before is not None else None
        cells = np.array([n for n, x in enumerate(flat) if old is None or x is not old[n]], dtype=np.int64)
        return Changes(cells, flat[cells])
    bits = _bits(after)
    differs = bits != (_bits(before) if before is not None else 0)
    if differs.ndim > 1:
        differs = differs.any(axis=1)
    cells = np.flatnonzero(differs)
    if cells.size == differs.size:
        return Changes(None, _memory(after))
    return Changes(cells, _memory(after)[cells])


def block_of(array: Array, cells: slice) -> Array:
    """Some cells of an array, in the order of its memory."""
    return _memory(array)[cells]


def all_zero(array: Array) -> bool:
    """Whether each bit is zero: then nothing has to be compared with it."""
    return not array.dtype.hasobject and not _bits(array).any()


def set_zero(array: Array) -> None:
    """Set each bit of a contiguous array to zero."""
    bits = _bits(array)
    assert np.may_share_memory(bits, array) or not array.size, "the memory of a result is contiguous"
    bits[...] = 0


def apply(result: Array, found: Changes) -> None:
    """Write what a worker changed."""
    flat = _memory(result)
    assert np.may_share_memory(flat, result) or not result.size, "the memory of a result is contiguous"
    if found.cells is None:
        flat[:] = found.values
    else:
        flat[found.cells] = found.values


def merged(before: Array, workers: list[Array]) -> Array:
    """The result of workers that each had a copy of what was before.

    >>> before = np.array([1.0, 2.0, np.nan])
    >>> merged(before, [np.array([0.0, 2.0, np.nan]), np.array([1.0, 2.0, 7.0])])
    array([0., 2., 7.])
    """
    out = before.copy(order="K")
    compared = None if all_zero(before) else before
    for array in workers:
        apply(out, changes(array, compared))
    return out
