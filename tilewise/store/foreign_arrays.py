"""Arrays of other libraries that give parts of themselves when they are indexed: Dask, xarray, Ray blocks.

In: an object, how to index it. Out: a Source that the driver reads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np

from tilewise.layout import Box
from tilewise.store.base import ND, Source, check_box


class Sliced(Source):
    """Something with a shape of which `take(slices)` gives parts; `borders` are where its own blocks begin and end."""

    opened_by_workers = False

    def __init__(
        self,
        take: Callable[[tuple[slice, ...]], Any],
        shape: tuple[int, ...],
        dtype: Any,
        borders: tuple[tuple[int, ...], ...],
        name: Hashable,
    ) -> None:
        self.take, self.name, self.borders = take, name, borders
        self.shape, self.dtype = tuple(int(n) for n in shape), np.dtype(dtype)
        self.chunks = tuple(max([1, *(b - a for a, b in pairwise(ends))]) for ends in borders)

    def fingerprint(self) -> Hashable:
        """What the library calls it, or this very object."""
        return "sliced", self.name, self.shape, self.dtype.str

    def parts(self, box: Box) -> Iterator[Box]:
        """Cut where blocks of the library end."""
        axes = []
        for (low, high), ends in zip(box, self.borders, strict=True):
            cuts = [low, *ends[bisect_right(ends, low) : bisect_right(ends, high - 1)], high]
            axes.append([(a, b) for a, b in pairwise(cuts) if a < b])
        yield from product(*axes)

    def read(self, box: Box, out: ND | None = None) -> ND:
        """Whatever the library gives for the slices."""
        check_box(box, self.shape, self.dtype, out)
        got = np.asarray(self.take(tuple(slice(lo, hi) for lo, hi in box)), self.dtype)
        if out is None:
            return got
        out[...] = got
        return out

    def __repr__(self) -> str:
        return f"<sliced {self.name} {self.shape} of {self.dtype}>"
