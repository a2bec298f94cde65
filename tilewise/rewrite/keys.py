"""Keys: what tells buckets apart. In: nodes as users write them. Out: an integer node, and what is known about it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise import rounding
from tilewise.ir.node import Node
from tilewise.ops.bucket import below
from tilewise.ops.const import const
from tilewise.ops.create import Arange
from tilewise.ops.elementwise import Map, apply
from tilewise.ops.rearrange import source

LOOK_BYTES = 1 << 20  # known values up to this size are looked at: that takes some 50 µs
BOOL = np.dtype(bool)


def known(node: Node, most: int = LOOK_BYTES) -> np.ndarray[Any, Any] | None:
    """A node's value if it is here and small enough to look at."""
    value = node.value
    return value if isinstance(value, np.ndarray) and value.nbytes <= most else None


def uncast(node: Node) -> Node:
    """What integers were before they were cast to something that holds all of them."""
    while node.value is None and type(node.op) is Map and node.op.fn.name == "cast":
        inner = node.inputs[0]
        if inner.dtype.kind not in "iu" or not np.can_cast(inner.dtype, node.dtype, "safe"):
            break
        node = inner
    return node


def count_up(node: Node) -> bool:
    """Whether a vector is 0, 1, 2, ... (as a view with new axes, and as any dtype that holds them)."""
    node, _ = source(uncast(source(node)[0]))
    node = uncast(node)
    if node.ndim != 1:
        return False
    if node.value is None:
        op = node.op
        return type(op) is Arange and op.begin == 0 and op.first == 0 and (op.second == 1 or op.length == 1)
    value = known(node)
    return value is not None and value.dtype.kind in "iuf" and np.array_equal(value, np.arange(len(value)))


def positive(keys: Node, length: int) -> Node:
    """Indices into `length` places with those that count from the end made to count from the start."""
    if keys.dtype.kind == "u" or below(keys) is not None:
        return keys
    value = known(keys, rounding.LOOK_KEYS_BYTES)
    if value is not None and (value.size == 0 or value.min() >= 0):
        return keys
    d = keys.dtype
    zero, n = const(d.type(0)), const(d.type(length))
    return apply(
        "where", (apply("less", (keys, zero), (d, d, BOOL)), apply("add", (keys, n), (d, d, d)), keys), (BOOL, d, d, d)
    )
