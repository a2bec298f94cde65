"""Products that are symmetric. In: a product of two matrices. Out: whether it is one matrix by its own transpose.

Keys of plans have no offsets, so only matrices that are used whole are known to be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.ops.views import Arrange, Window
from tilewise.stage.cut_axis import plain_window, view_axes
from tilewise.stage.steps import Pass


def is_gram(step: Pass, nodes: Sequence[Any]) -> bool:
    """Whether both operands are one matrix, summed along the same axis of it."""
    assert step.letters is not None
    (first, ours), (second, theirs) = (_base(nodes[x]) for x in step.inputs)
    if first is not second:
        return False
    left, right = ({axis: dim for axis, dim in zip(axes, letters, strict=True)} for axes, letters in
                   zip((ours, theirs), step.letters, strict=True))  # fmt: skip
    summed = {axis for axis, dim in left.items() if step.kernel.reduced[dim]}
    return summed == {axis for axis, dim in right.items() if step.kernel.reduced[dim]}


def _base(node: Any) -> tuple[Any, tuple[int, ...]]:
    """The matrix that a node shows whole, and which of its axes each axis of the node is."""
    axes: tuple[int, ...] = tuple(range(node.ndim))
    while node.value is None and (
        isinstance(node.op, Arrange) or (isinstance(node.op, Window) and plain_window(node.op))
    ):
        under = view_axes(node.op, node.ndim)
        if None in under or len(under) != 2 or node.inputs[0].ndim != 2:
            break
        axes = tuple(under[a] for a in axes)  # type: ignore[misc]
        node = node.inputs[0]
    return node, axes
