"""Rolled arrays, known by their form, and arrays with a rim. In: a node. Out: what was rolled, and how far; a node.

`np.roll` records a join of the two parts of an array. A program that reads an array at several small shifts (a stencil
on a torus) can read all of them from one copy with a rim around it: see rewrite/periodic.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.order import strides_of
from tilewise.ops.join import Concat, Copy
from tilewise.ops.views import Window, view
from tilewise.records import dataclass

MOVES = (Concat, Copy)  # what a rolled array may be made by
MOST_ROLLS = 8  # one after another, that are looked through


def rolled_once(node: Node) -> tuple[Node, int, int] | None:
    """What was rolled, along which axis, by how much; None for any other node."""
    op = node.op
    if type(op) is not Concat or node.value is not None or len(node.inputs) != 2 or not node.known:
        return None
    tail, head = node.inputs
    if tail.value is not None or head.value is not None or type(tail.op) is not Window or type(head.op) is not Window:
        return None
    base = tail.inputs[0]
    if head.inputs[0] is not base or base.shape != node.shape or base.dtype != node.dtype or base.order is not None:
        return None
    by = tail.dims[op.axis]
    strides = strides_of(base.dims, base.dtype.itemsize, None)
    start = (base.dims[op.axis] - by) * strides[op.axis]
    if (tail.op.offset, head.op.offset) != (start, 0) or not tail.op.strides == head.op.strides == strides:
        return None
    return base, op.axis, by


def rolled(node: Node) -> tuple[Node, dict[int, int]] | None:
    """What was rolled at first, and how far along each axis, as the least distance (-1 for the length less one).

    Copies on the way are looked through: rolling by nothing is one.
    """
    if type(node.op) not in MOVES or node.value is not None:
        return None
    shifts: dict[int, int] = {}
    first = node
    for _ in range(MOST_ROLLS):
        if type(node.op) is Copy and node.value is None and node.order is None and node.inputs[0].order is None:
            node = node.inputs[0]
            continue
        found = rolled_once(node)
        if found is None:
            break
        node, axis, by = found
        length = node.dims[axis]
        by = (shifts.get(axis, 0) + by) % length
        shifts[axis] = by if by <= length // 2 else by - length
    return None if node is first else (node, {axis: by for axis, by in sorted(shifts.items()) if by})


@dataclass(frozen=True)
class Rim(Op):
    """An array with so many elements of its other end on both sides of each axis."""

    widths: tuple[int, ...]
    name = "rim"

    def numpy(self, *arrays: Any) -> Any:
        out = np.empty([n + 2 * w for n, w in zip(arrays[0].shape, self.widths, strict=True)], arrays[0].dtype)
        self.middle(out)[...] = arrays[0]
        self.close(out)
        return out

    def middle(self, out: Any) -> Any:
        """Where the array itself goes."""
        return out[tuple([slice(w, n - w) for n, w in zip(out.shape, self.widths, strict=True)])]

    def close(self, out: Any) -> None:
        """Copy the ends to the other sides, axis by axis, so that corners come around twice."""
        for axis, w in enumerate(self.widths):
            if w:
                along = np.moveaxis(out, axis, 0)
                along[:w], along[-w:] = along[-2 * w : -w], along[w : 2 * w]


def rim(x: Node, widths: tuple[int, ...]) -> Node:
    """A copy of an array with a rim."""
    shape = tuple([n + 2 * w for n, w in zip(x.dims, widths, strict=True)])
    return intern(Rim(widths), (x,), shape, x.dtype)


def part(x: Node, axis: int, start: int, stop: int) -> Node:
    """x[..., start:stop, ...] of an array in C order."""
    strides = strides_of(x.dims, x.dtype.itemsize, None)
    shape = (*x.dims[:axis], stop - start, *x.dims[axis + 1 :])
    return view(x, start * strides[axis], shape, strides, x.dtype)
