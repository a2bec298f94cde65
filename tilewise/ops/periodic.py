"""Rolled arrays, known by their form, and arrays with a rim. In: a node. Out: what was rolled, and how far; a node.

`np.roll` records a join of the two parts of an array. A program that reads an array at several small shifts (a stencil
on a torus) can read all of them from one copy with a rim around it: see rewrite/periodic.py.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, Shape, intern, known_leaf
from tilewise.ir.order import Order, strides_of
from tilewise.ops.join import Concat, Copy, concat
from tilewise.ops.views import Window, view
from tilewise.records import dataclass

MOVES = (Concat, Copy)  # what a rolled array may be made by
MOST_ROLLS = 8  # one after another, that are looked through
CHUNK_BYTES = 1 << 20  # of rows that are copied, and their ends after them
MOST_FORMS = 1024  # shapes and shifts whose operators are remembered


@dataclass(frozen=True, eq=False)
class _Form:
    """The operators of an array that is rolled once: its end, its beginning, and the join of both."""

    axis: int
    by: int
    tail: tuple[Op, Shape, Order]
    head: tuple[Op, Shape, Order]
    join: tuple[Op, Order]


@lru_cache(maxsize=MOST_FORMS)
def _form(dims: tuple[int, ...], dtype: np.dtype[Any], axis: int, by: int) -> _Form:
    base = known_leaf(SimpleNamespace(shape=dims, dtype=dtype), None)
    tail, head = part(base, axis, dims[axis] - by, dims[axis]), part(base, axis, 0, dims[axis] - by)
    whole = concat((tail, head), axis, dtype)
    end, beginning = ((each.op, each.shape, each.order) for each in (tail, head))
    made = _Form(axis, by, end, beginning, (whole.op, whole.order))
    if len(_forms) >= MOST_FORMS:
        _forms.clear()
    _forms[id(tail.op)] = made
    return made


_forms: dict[int, _Form] = {}  # by the operator of the end: what was made here need not be looked at again


def roll_once(x: Node, axis: int, by: int) -> Node:
    """An array in C order, known by its lengths, whose last `by` elements along an axis become the first."""
    form = _form(x.dims, x.dtype, axis, by)
    op, shape, order = form.tail
    tail = intern(op, (x,), shape, x.dtype, order)
    op, shape, order = form.head
    head = intern(op, (x,), shape, x.dtype, order)
    return intern(form.join[0], (tail, head), x.shape, x.dtype, form.join[1])


def rolled_once(node: Node) -> tuple[Node, int, int] | None:
    """What was rolled, along which axis, by how much; None for any other node."""
    op = node.op
    if type(op) is not Concat or node.value is not None or len(node.inputs) != 2:
        return None
    tail, head = node.inputs
    form = _forms.get(id(tail.op))
    if form is not None and form.tail[0] is tail.op and form.head[0] is head.op and form.join[0] is op:
        base = tail.inputs[0] if tail.inputs else None
        if base is not None and head.inputs and head.inputs[0] is base and tail.value is None and head.value is None:
            return (base, form.axis, form.by) if base.order is None else None
    if not node.known:
        return None
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
        self.fill(out, arrays[0], 0, len(arrays[0]))
        self.close(out)
        return out

    def fill(self, out: Any, array: Any, low: int, high: int) -> None:
        """Write some rows of the array and their rim, a few at a time: their ends are still in the cache."""
        each = max(1, CHUNK_BYTES * len(array) // max(1, array.nbytes))
        inner = (slice(None), *[slice(w, n - w) for n, w in zip(out.shape[1:], self.widths[1:], strict=True)])
        for start in range(low, high, each):
            stop = min(start + each, high)
            part = out[self.widths[0] + start : self.widths[0] + stop]
            part[inner] = array[start:stop]
            _close(part, (0, *self.widths[1:]))

    def close(self, out: Any) -> None:
        """Write the rows of the rim, after all others."""
        _close(out, self.widths[:1])


def _close(out: Any, widths: tuple[int, ...]) -> None:
    """Copy the ends to the other sides, axis by axis, so that corners come around twice."""
    for axis, w in enumerate(widths):
        if w:
            lead = (slice(None),) * axis
            out[(*lead, slice(w))] = out[(*lead, slice(-2 * w, -w))]
            out[(*lead, slice(-w, None))] = out[(*lead, slice(w, 2 * w))]


def rim(x: Node, widths: tuple[int, ...]) -> Node:
    """A copy of an array with a rim."""
    shape = tuple([n + 2 * w for n, w in zip(x.dims, widths, strict=True)])
    return intern(Rim(widths), (x,), shape, x.dtype)


def part(x: Node, axis: int, start: int, stop: int) -> Node:
    """x[..., start:stop, ...] of an array in C order."""
    strides = strides_of(x.dims, x.dtype.itemsize, None)
    shape = (*x.dims[:axis], stop - start, *x.dims[axis + 1 :])
    return view(x, start * strides[axis], shape, strides, x.dtype)
