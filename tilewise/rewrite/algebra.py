"""Algebra that keeps every bit: neutral elements, inverses of themselves, casts and reshapes of their like."""

from __future__ import annotations

import numpy as np

from tilewise.ir.node import Node
from tilewise.ops.const import Const
from tilewise.ops.elementwise import Map, cast
from tilewise.ops.join import Broadcast
from tilewise.ops.reshape import Reshape, reshape
from tilewise.ops.views import Window
from tilewise.rewrite.rule import Rule

# function -> its neutral element, the kinds of dtypes for which that keeps all bits, and on which sides
_NEUTRAL: dict[str, tuple[int, str, str]] = {
    "multiply": (1, "iuf", "both"),
    "divide": (1, "f", "right"),
    "add": (0, "iu", "both"),  # -0.0 + 0.0 is 0.0
    "subtract": (0, "iuf", "right"),
    "bitwise_or": (0, "iu", "both"),
    "bitwise_xor": (0, "iu", "both"),
    "left_shift": (0, "iu", "right"),
    "right_shift": (0, "iu", "right"),
}
_INVOLUTIONS = {"negative": "iufc", "invert": "iub", "logical_not": "b", "conjugate": "fc"}


def _is(node: Node, value: int) -> bool:
    """Whether a node is this constant (of those that plans' keys know)."""
    op = node.op
    return type(op) is Const and op.sharp and bool(op.value == value)


def _neutral_at(node: Node) -> int | None:
    """Which operand of an elementwise operator is not its neutral element; None if both matter."""
    assert type(node.op) is Map
    row = _NEUTRAL.get(node.op.fn.name)
    if row is None or node.dtype.kind not in row[1]:
        return None
    a, b = node.inputs
    if _is(b, row[0]) and a.dtype == node.dtype and a.shape == node.shape:
        return 0
    return 1 if row[2] == "both" and _is(a, row[0]) and b.dtype == node.dtype and b.shape == node.shape else None


def neutral(node: Node) -> Node | None:
    """x * 1, x / 1, x - 0, and of integers x + 0, x | 0, x ^ 0, x << 0 => x"""
    at = _neutral_at(node)
    return None if at is None else _not_a_view(node.inputs[at])


def _not_a_view(node: Node) -> Node | None:
    """A value that has memory of its own, in its own order: on a mesh a view is laid out anew."""
    return None if type(node.op) in (Window, Broadcast, Reshape) else node


def _twice(node: Node) -> bool:
    inner = node.inputs[0]
    return (
        type(node.op) is Map
        and node.dtype.kind in _INVOLUTIONS.get(node.op.fn.name, "")
        and inner.value is None
        and inner.op is node.op
        and inner.inputs[0].dtype == node.dtype
    )


def twice(node: Node) -> Node | None:
    """-(-x), ~(~x), conj(conj(x)) => x"""
    return _not_a_view(node.inputs[0].inputs[0])


def _cast_twice(node: Node) -> bool:
    inner = node.inputs[0]
    if type(node.op) is not Map or node.op.fn.name != "cast" or inner.value is not None or type(inner.op) is not Map:
        return False
    return inner.op.fn.name == "cast" and np.can_cast(inner.inputs[0].dtype, inner.dtype, "safe")


def cast_twice(node: Node) -> Node | None:
    """x as a (which holds all values of x's dtype) as b => x as b"""
    source, between = node.inputs[0].inputs[0], node.inputs[0].dtype
    if source.dtype.kind != "b" and not any(source.dtype.kind in k and between.kind in k for k in ("iu", "f", "c")):
        return None  # NumPy calls casts from int64 to float64 safe, which they are not
    return _not_a_view(cast(source, node.dtype))


def _reshaped_twice(node: Node) -> bool:
    inner = node.inputs[0]
    return type(node.op) is Reshape is type(inner.op) and inner.value is None and node.op.order == inner.op.order


def reshaped_twice(node: Node) -> Node | None:
    """reshape(reshape(x, a), b) => reshape(x, b)"""
    assert type(node.op) is Reshape
    return reshape(node.inputs[0].inputs[0], node.op.shape, node.op.order)


RULES = (
    Rule((Map,), lambda n: len(n.inputs) == 2 and _neutral_at(n) is not None, neutral),
    Rule((Map,), _twice, twice),
    Rule((Map,), _cast_twice, cast_twice),
    Rule((Reshape,), _reshaped_twice, reshaped_twice),
)
