"""Views of what a mask selects, before it is known how much that is. In: an array, NumPy's view function. Out: a view.

A handle finds its elements by strides, which take numbers for lengths. Until somebody asks for these, a view that only
arranges axes (`x[mask].T`, `x[mask][:, None]`) has a cell of its own, which stands for what it is a view of as that is
when it is read. Who asks for its shape, or writes to it, gets a view like any other (`become_view`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewise.array.cell import ND, Cell
from tilewise.array.handle import Array, from_node, meta
from tilewise.array.session import on_workers
from tilewise.ir.node import Length, Node, Op, intern
from tilewise.ir.order import by_strides, strides_of
from tilewise.ops.rearrange import arranged
from tilewise.ops.views import Arrange

Axes = tuple[int | None, ...]
ANY_LENGTH = 3  # in place of one that is not known: no view function that is asked here looks at lengths


class Turned(Op):
    """The axes of a cell in another order; None is a new one."""

    __slots__ = ("axes", "cell")
    name = "turned"

    def __init__(self, cell: Cell, axes: Axes) -> None:
        self.cell, self.axes = cell, axes


def turned(x: Array, view: Callable[[ND], ND]) -> Array | None:
    """A view that puts all axes in another order, or adds some of length one; None if x's shape is known already."""
    node = x._cell.node
    if x._nd is not None or node is None or node.known or not on_workers():
        return None
    probe = np.broadcast_to(0, range(2, node.ndim + 2))  # its lengths say which axis is which
    axes: Axes = tuple([n - 2 if n > 1 else None for n in view(probe).shape])
    cell, op = x._cell, node.op
    if isinstance(op, Turned):
        cell, axes = op.cell, tuple([None if a is None else op.axes[a] for a in axes])
    made = Node()
    like = _arranged(cell.read(), axes)
    made.op, made.inputs, made.value, made.trail, made.site = Turned(cell, axes), (), None, 0, node.site
    made.shape, made.dtype, made.order = like.shape, like.dtype, like.order
    return from_node(made)


def node_now(op: Turned) -> Node:
    """What stands for the view's value."""
    return _arranged(op.cell.read(), op.axes)


def is_turned(x: Array) -> bool:
    """Whether an array is such a view, and nobody has asked for its shape."""
    node = x._cell.node
    return node is not None and type(node.op) is Turned


def become_view(x: Array) -> None:
    """Make it a view of the cell, whose lengths become known."""
    assert x._cell.node is not None
    op = x._cell.node.op
    assert isinstance(op, Turned)
    whole: Array = object.__new__(Array)
    whole._cell, whole._nd, whole._gen, whole._fixed = op.cell, None, op.cell.gen, False
    x._nd, x._gen, x._cell = shown(meta(whole), op.axes), whole._gen, op.cell


def shown(nd: ND, axes: Axes) -> ND:
    """An ndarray's axes in this order."""
    return nd.transpose([a for a in axes if a is not None])[tuple([None if a is None else slice(None) for a in axes])]


def _arranged(node: Node, axes: Axes) -> Node:
    if node.known:
        return arranged(node, axes)
    shape = tuple([1 if a is None else node.shape[a] for a in axes])
    strides = strides_of(_dims(node), 1, node.order)
    order = by_strides(shape, [0 if a is None else strides[a] for a in axes])
    return intern(Arrange(axes, (1,) * len(axes)), (node,), shape, node.dtype, order)


def _dims(node: Node) -> Sequence[int]:
    return [ANY_LENGTH if type(d) is Length else d for d in node.shape]
