"""Toy implementations of the storage protocols: a source that computes its elements, a sink that keeps boxes."""

from __future__ import annotations

import pickle
from collections.abc import Hashable
from math import prod
from typing import Any

import numpy as np

from tilewise.ir.order import Order
from tilewise.layout import Box, box_size
from tilewise.store.base import BoxError, Sink, Source, check_box, within

ND = np.ndarray[Any, Any]


class Grown(Source):
    """Elements made from their indices: no array is behind it. It counts its reads, and reads one chunk at a time.

    Sources with one name (and seed) are one leaf as long as something refers to it.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        chunks: tuple[int, ...],
        dtype: Any = "f8",
        order: Order = None,
        seed: int = 3,
        name: int = 0,
    ) -> None:
        self.shape, self.chunks, self.dtype, self.order, self.seed = shape, chunks, np.dtype(dtype), order, seed
        self.name = name
        self.boxes: list[Box] = []

    def fingerprint(self) -> Hashable:
        return "grown", self.shape, self.dtype.str, self.seed, self.name

    def read(self, box: Box, out: ND | None = None) -> ND:
        check_box(box, self.shape, self.dtype, out)
        for (low, high), step in zip(box, self.chunks, strict=True):
            if low < high and low // step != (high - 1) // step:
                raise BoxError(f"{box} lies in more than one chunk of {self.chunks}")
        self.boxes.append(box)
        if out is None:
            out = np.empty([hi - lo for lo, hi in box], self.dtype)
        out[...] = elements(self.shape, self.dtype, self.seed, box)
        return out

    def __reduce__(self) -> Any:
        return Grown, (self.shape, self.chunks, self.dtype, self.order, self.seed, self.name)


def elements(shape: tuple[int, ...], dtype: Any, seed: int = 3, box: Box | None = None) -> ND:
    """What a Grown array holds in a box (None: all of it)."""
    sizes = box or tuple((0, n) for n in shape)
    total = np.full([hi - lo for lo, hi in sizes], seed, np.int64)
    for axis, (low, high) in enumerate(sizes):
        index = np.arange(low, high) * prod(shape[axis + 1 :])
        total += index.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    return (total * 7919 % 101).astype(dtype)


class Boxes(Sink):
    """Keeps what is written in a list, and shows it as one array after the commit."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.written: list[tuple[Box, ND]] | None = []
        self.made: ND | None = None

    def write(self, box: Box, block: ND) -> None:
        if self.written is None:
            raise BoxError("closed")
        check_box(box, self.shape, self.dtype, block)
        self.written.append((box, block.copy()))

    def commit(self) -> Any:
        if self.written is None or sum(box_size(b) for b, _ in self.written) != prod(self.shape):
            raise BoxError("elements are missing")
        out = np.empty(self.shape, self.dtype)
        for box, block in self.written:
            out[within(box, tuple((0, n) for n in self.shape))] = block
        self.made, self.written = out, None
        return out

    def abort(self) -> None:
        self.written = None


def read_pickled(data: bytes) -> tuple[Hashable, ND]:
    """The fingerprint and all elements of a pickled source."""
    source: Source = pickle.loads(data)
    return source.fingerprint(), source.whole()
