"""The driver's arrays as a Source and a Sink. In: ndarrays. Out: the same elements, by boxes."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from math import prod
from typing import Any

import numpy as np

from tilewise.errors import message
from tilewise.ir.order import Order, by_strides
from tilewise.layout import Box, box_size
from tilewise.store import pool
from tilewise.store.base import ND, BoxError, Sink, Source, check_box, within


class ArraySource(Source):
    """An ndarray that nobody writes to. It pickles with all of its elements: the driver sends workers their parts."""

    opened_by_workers = False
    whole_chunks = False

    def __init__(self, array: ND) -> None:
        self.array = array
        self.shape, self.dtype = array.shape, array.dtype
        self.order = by_strides(array.shape, array.strides)
        self.chunks = tuple(max(n, 1) for n in array.shape)

    def fingerprint(self) -> Hashable:
        """A hash of the elements."""
        data = np.ascontiguousarray(self.array)
        if self.dtype.hasobject:
            return id(self.array)
        return self.shape, self.dtype.str, hashlib.blake2b(data.view(np.uint8).data, digest_size=16).hexdigest()

    def read(self, box: Box, out: ND | None = None) -> ND:
        """A view, or a copy in `out`."""
        check_box(box, self.shape, self.dtype, out)
        part: ND = self.array[within(box, tuple((0, n) for n in self.shape))]
        if out is None:
            return part
        out[...] = part
        return out


class ArraySink(Sink):
    """A new array of the driver's: `commit` gives it."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], order: Order = None) -> None:
        self._out: ND | None = pool.empty(shape, dtype, order)
        self._missing = prod(shape)

    def write(self, box: Box, block: ND) -> None:
        """Copy a block."""
        out = self._open()
        check_box(box, out.shape, out.dtype, block)
        out[within(box, tuple((0, n) for n in out.shape))] = block
        self._missing -= box_size(box)

    def commit(self) -> ND:
        """The array."""
        out = self._open()
        if self._missing:
            raise BoxError(
                message(f"every element of {out.shape} is written once", got=f"{out.size - self._missing:,} writes")
            )
        self._out = None
        return out

    def abort(self) -> None:
        """Forget the array."""
        self._out = None

    def _open(self) -> ND:
        if self._out is None:
            raise BoxError(message("a sink that was committed or aborted takes no more", cure="Make a new one"))
        return self._out
