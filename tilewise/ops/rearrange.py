"""Views of nodes, for rules and operators. In: a node and axes. Out: a node that shows the same elements."""

from __future__ import annotations

from collections.abc import Sequence

from tilewise.ir.node import Node
from tilewise.ir.order import strides_of
from tilewise.ops.views import Axis, Window, explain, view


def memory_of(node: Node) -> tuple[Node, int, tuple[int, ...]]:
    """What a node is a view of (itself, if it is none), with its offset and strides there."""
    op = node.op
    if type(op) is Window and node.value is None:
        return node.inputs[0], op.offset, op.strides
    return node, 0, strides_of(node.dims, node.dtype.itemsize, node.order)


def arranged(node: Node, axes: Sequence[int | None]) -> Node:
    """The node with its axes in this order; None is a new axis of length one."""
    base, offset, strides = memory_of(node)
    shape = tuple(1 if a is None else node.shape[a] for a in axes)
    return view(base, offset, shape, tuple(0 if a is None else strides[a] for a in axes), node.dtype)


def source(node: Node) -> tuple[Node, tuple[int | None, ...]]:
    """What a view shows all of, and which of its axes each of the view's is (None: new).

    Itself, if it is no such view: a part, a diagonal, something repeated.
    """
    op = node.op
    whole = (node, tuple(range(node.ndim)))
    if type(op) is not Window or node.value is not None:
        return whole
    found = explain(op)
    if found is None:
        return whole
    axes, _ = found
    if any(not _entire(a, op) for a in axes) or any(
        n != 1 and all(a.base != k for a in axes) for k, n in enumerate(op.base_shape)
    ):
        return whole
    return node.inputs[0], tuple(a.base for a in axes)


def _entire(axis: Axis, op: Window) -> bool:
    if axis.base is None:
        return axis.length == 1
    return axis.start == 0 and axis.step == 1 and axis.length == op.base_shape[axis.base]
