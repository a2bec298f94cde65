"""Sorting. In: a node. Out: the sorted values, or positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern


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


def sort(node: Node, axis: int, kind: str | None) -> Node:
    """Sorted along an axis."""
    return intern(Sort(axis, kind), (node,), node.shape, node.dtype, node.order)


def argsort(node: Node, axis: int, kind: str | None) -> Node:
    """The permutation that sorts."""
    return intern(Argsort(axis, kind), (node,), node.shape, np.dtype(np.intp))
