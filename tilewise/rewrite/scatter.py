"""ufunc.at as a reduction by key."""

from __future__ import annotations

import numpy as np

from tilewise.ir.node import Node
from tilewise.ops.bucket import bucket
from tilewise.ops.const import Const
from tilewise.ops.create import Full
from tilewise.ops.elementwise import apply, cast
from tilewise.ops.index import At
from tilewise.ops.join import broadcast_view
from tilewise.rewrite.keys import known, positive
from tilewise.rewrite.rule import Rule

_FUNCTIONS = {
    "add": "iufc",
    "minimum": "iu",
    "maximum": "iu",
    "bitwise_or": "iu",
    "bitwise_and": "iu",
    "bitwise_xor": "iu",
}


def _shaped(node: Node) -> bool:
    op = node.op
    assert type(op) is At
    return (
        op.window is None
        and op.key == (("a", 0),)
        and len(node.inputs) == 3
        and node.inputs[2].ndim == 1
        and node.dtype.kind in _FUNCTIONS.get(op.fn, "")
        and np.can_cast(node.inputs[1].dtype, node.dtype, "same_kind")
    )


def scattered(node: Node) -> Node | None:
    """add.at(base, keys, x) => base + x added up by key (of floats: where base is known to hold no -0.0)"""
    op = node.op
    assert type(op) is At
    base, given, keys = node.inputs
    zero = _zero(base)
    if zero is None and node.dtype.kind in "fc":
        return None
    if given.dtype != node.dtype and (given.dtype.kind in "fc" or op.fn in ("minimum", "maximum")):
        return None  # NumPy computes in the wider of the two; of integers, sums wrap to the same
    n, length = keys.shape[0], base.shape[0]
    if length > np.iinfo(keys.dtype).max or length > n:
        return None  # a few elements of a large base are written faster than a bucket for each is made
    values = cast(given, node.dtype)
    if values.ndim or base.ndim > 1:
        values = broadcast_view(values, (n, *base.shape[1:]))
    sums = bucket(values, positive(keys, length), op.fn, length)
    return sums if zero and op.fn == "add" else apply(op.fn, (base, sums), (node.dtype,) * 3)


def _zero(base: Node) -> bool | None:
    """Whether the base is all zeros; None if there may be a -0.0 in it, which sums do not keep."""
    fill = base.inputs[0].op if base.value is None and type(base.op) is Full else None
    value = fill.value if isinstance(fill, Const) else known(base)
    if value is None:
        return None
    parts = (value.real, value.imag) if base.dtype.kind == "c" else (value,)
    if any(np.any(np.signbit(p) & (p == 0)) for p in parts if base.dtype.kind in "fc"):
        return None
    return not np.any(value)


RULES = (Rule((At,), _shaped, scattered, rounds="fc"),)
