"""Sorting, and sums by key. In: a node. Out: the sorted values, positions, or buckets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ops.elementwise import cast


@dataclass(frozen=True)
class Sort(Op):
    """np.sort along an axis."""

    axis: int
    kind: str | None
    name = "sort"

    def numpy(self, *arrays: Any) -> Any:
        return np.sort(arrays[0], axis=self.axis, kind=self.kind)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Argsort(Op):
    """np.argsort along an axis."""

    axis: int
    kind: str | None
    name = "argsort"

    def numpy(self, *arrays: Any) -> Any:
        return np.argsort(arrays[0], axis=self.axis, kind=self.kind)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Bincount(Op):
    """Counts by key, or sums of weights by key (second input), into `length` buckets."""

    length: int
    name = "bincount"

    def numpy(self, *arrays: Any) -> Any:
        weights = arrays[1] if len(arrays) > 1 else None
        return np.bincount(arrays[0], weights, minlength=self.length)


def sort(node: Node, axis: int, kind: str | None) -> Node:
    """Sorted along an axis."""
    return intern(Sort(axis, kind), (node,), node.shape, node.dtype, node.order)


def argsort(node: Node, axis: int, kind: str | None) -> Node:
    """The permutation that sorts."""
    return intern(Argsort(axis, kind), (node,), node.shape, np.dtype(np.intp))


def bincount(keys: Node, weights: Node | None, length: int) -> Node:
    """Bucket sums; the caller has checked that keys are in [0, length)."""
    if weights is None:
        return intern(Bincount(length), (keys,), (length,), np.dtype(np.intp))
    return intern(Bincount(length), (keys, cast(weights, np.dtype(np.float64))), (length,), np.dtype(np.float64))
