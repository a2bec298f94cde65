"""An operator on several operands of one kind at once. In: a node, its operands with one more axis. Out: the same.

The new axis (a letter of the iteration space) is the last one, or the first, in all nodes of one re-rolling alike.
Operators register theirs beside their class.
"""

from __future__ import annotations

import functools

from tilewise.ir.node import Node, Op
from tilewise.ops.rearrange import arranged, memory_of
from tilewise.ops.views import Window, explain, view
from tilewise.records import dataclass


@dataclass(frozen=True)
class Rolled:
    """A node that stands for all siblings: for each of them along a new axis, or (`many` False) the same for all."""

    node: Node
    many: bool

    def aligned(self, ndim: int, last: bool) -> Node:
        """An elementwise operand whose new axis meets those of the others."""
        node = self.node
        if last:
            return node if self.many or not node.ndim else arranged(node, [*range(node.ndim), None])
        short = ndim + 1 - node.ndim
        return arranged(node, [0, *[None] * short, *range(1, node.ndim)]) if self.many and short else node


@functools.singledispatch
def batch(op: Op, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    """The node that stands for siblings such as `first`; None if there is no such operator."""
    return None


@batch.register(Window)
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
