"""An operator on several operands of one kind at once. In: a node, its operands with one more axis. Out: the same.

The new axis (a letter of the iteration space) is the last one, or the first, in all nodes of one re-rolling alike.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.order import broadcast_order
from tilewise.ops.bucket import Bucket, bucket
from tilewise.ops.contract import Contract, matmul
from tilewise.ops.elementwise import Map, seen
from tilewise.ops.join import Copy
from tilewise.ops.reduce import Arg, Reduce, Scan, arg, reduce, scan
from tilewise.ops.views import Window, explain, view
from tilewise.rewrite.views import arranged, memory_of


@dataclass(frozen=True)
class Rolled:
    """A node that stands for all siblings: for each of them along a new axis, or (`many` False) the same for all."""

    node: Node
    many: bool


@functools.singledispatch
def batch(op: Op, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    """The node that stands for siblings such as `first`; None if there is no such operator."""
    return None


@batch.register
def _(op: Map, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    args = tuple([_aligned(x, first.ndim, last) for x in ins])
    shape = (*first.shape, count) if last else (count, *first.shape)
    order = broadcast_order(len(shape), [(seen(x), x.order) for x in args])
    return intern(op, args, shape, first.dtype, order)


def _aligned(x: Rolled, ndim: int, last: bool) -> Node:
    """An operand whose new axis meets those of the others."""
    node = x.node
    if last:
        return node if x.many or not node.ndim else arranged(node, [*range(node.ndim), None])
    short = ndim + 1 - node.ndim
    return arranged(node, [0, *[None] * short, *range(1, node.ndim)]) if x.many and short else node


@batch.register
def _(op: Reduce, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    axes = op.axes if last else tuple([a + 1 for a in op.axes])
    return reduce(ins[0].node, op.fn, axes, op.keepdims, op.dtype)


@batch.register
def _(op: Scan, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    return scan(ins[0].node, op.fn, op.axis + (not last), op.dtype)


@batch.register
def _(op: Arg, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    axis = 0 if op.axis is None and first.inputs[0].ndim == 1 else op.axis
    return None if axis is None or op.keepdims else arg(ins[0].node, op.fn, axis + (not last), False)


@batch.register
def _(op: Copy, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    return ins[0].node


@batch.register
def _(op: Bucket, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    values, keys = ins
    if keys.many or not first.inputs[0].ndim:
        return None
    n = values.node.ndim
    rows = values.node if last else arranged(values.node, [1, 0, *range(2, n)])
    made = bucket(rows, keys.node, op.fn, op.buckets)
    return made if last else arranged(made, [1, 0, *range(2, n)])


@batch.register
def _(op: Contract, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    """Several products of one matrix and a vector are a product of matrices."""
    matrix, vector = ins
    if op.how not in ("matmul", "dot") or [x.ndim for x in first.inputs] != [2, 1] or matrix.many:
        return None
    made = matmul(matrix.node, vector.node if last else arranged(vector.node, [1, 0]), first.dtype)
    return made if last else arranged(made, [1, 0])


@batch.register
def _(op: Window, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    found = explain(op)
    if found is None:
        return None
    axes, starts = found
    base, offset, strides = memory_of(ins[0].node)
    inner, step = (strides[:-1], strides[-1]) if last else (strides[1:], strides[0])
    offset += sum(s * t for s, t in zip(starts, inner, strict=True))
    lengths = tuple([a.length for a in axes])
    steps = tuple([0 if a.base is None else a.step * inner[a.base] for a in axes])
    if last:
        return view(base, offset, (*lengths, count), (*steps, step), first.dtype)
    return view(base, offset, (count, *lengths), (step, *steps), first.dtype)
