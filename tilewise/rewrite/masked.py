"""Conditional reductions: sums over the rows that a mask selects, one sum per key. In: siblings. Out: one node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewise.ir.node import Length, Node, intern
from tilewise.ir.order import broadcast_order
from tilewise.ops.bucket import bucket
from tilewise.ops.const import Const, const
from tilewise.ops.elementwise import Map, apply, broadcast, cast, seen
from tilewise.ops.index import Compress
from tilewise.ops.reduce import Reduce, reduce
from tilewise.rewrite.keys import uncast

MAX_NODES = 64  # between a selection and its sum


def by_key(siblings: Sequence[Node]) -> Node | None:
    """f(x[keys == j]).sum(0) for j, j + 1, ... => f(x) added up by key"""
    op = siblings[0].op
    if type(op) is not Reduce or op.fn != "add" or op.axes[:1] != (0,) or op.keepdims:
        return None
    if any(s.op != op for s in siblings):
        return None
    inner = [s.inputs[0] for s in siblings]
    parts = [unmasked(x) if isinstance(x.shape[0], Length) else _counted(x) for x in inner]
    found = [p for p in parts if p is not None]
    if len(found) < len(parts) or any(p[0] is not found[0][0] for p in found):
        return None
    keys = _keys([mask for _, mask in found])
    if keys is None:
        return None
    values = found[0][0]
    if op.axes[1:]:
        values = reduce(values, "add", op.axes[1:], False, op.dtype)
    return bucket(values, keys, "add", len(siblings))


def _counted(x: Node) -> tuple[Node, Node] | None:
    """Of a mask that is added up: the number one, and the mask."""
    if x.value is None and type(x.op) is Map and x.op.fn.name == "cast" and x.inputs[0].dtype.kind == "b":
        return const(x.dtype.type(1)), x.inputs[0]
    return None


def unmasked(top: Node) -> tuple[Node, Node] | None:
    """What f(x[mask]) is without the mask, and the mask; None if not all in it that is selected is selected so.

    In place of the axis that is selected it has those of the mask.
    """
    new: dict[Node, Node] = {}
    masks: set[Node] = set()
    stack = [top]
    while stack:
        n = stack[-1]
        if n in new or n.known:
            new.setdefault(n, n)
            stack.pop()
        elif n.value is not None or len(new) > MAX_NODES:
            return None
        elif type(n.op) is Compress:
            base, mask = n.inputs
            if not base.known:
                return None
            masks.add(mask)
            new[n] = base
            stack.pop()
        elif type(n.op) not in (Map, Reduce) or any([type(d) is Length for d in n.shape[1:]]):
            return None  # (n, 1)[mask] * (n,)[mask] is selected along two axes
        elif missing := [x for x in n.inputs if x not in new]:
            stack += missing
        elif isinstance(n.op, Reduce):
            found = _along_others(n, new[n.inputs[0]])
            if found is None:
                return None
            new[n] = found
            stack.pop()
        else:
            ins = tuple([new[x] for x in n.inputs])
            shape = broadcast([x.shape for x in ins])
            if any([m.ndim > 1 and shape != (*m.shape, *n.shape[1:]) for m in masks]):
                return None
            order = broadcast_order(len(shape), [(seen(x), x.order) for x in ins])
            new[n] = intern(n.op, ins, shape, n.dtype, order)
            stack.pop()
    return (new[top], masks.pop()) if len(masks) == 1 else None


def _along_others(n: Node, whole: Node) -> Node | None:
    """A reduction along axes that no mask selects, of what it is selected from."""
    op, (x,) = n.op, n.inputs
    assert isinstance(op, Reduce)
    if 0 in op.axes or type(x.shape[0]) is not Length:
        return None
    more = whole.ndim - x.ndim  # axes that the mask has beside the first
    return reduce(whole, op.fn, tuple([a + more for a in op.axes]), op.keepdims, op.dtype)


def _keys(masks: Sequence[Node]) -> Node | None:
    """Keys that count from zero, for masks keys == j, keys == j + 1, ..."""
    found: list[tuple[Node, int]] = []
    for mask in masks:
        if mask.value is not None or type(mask.op) is not Map or mask.op.fn.name != "equal":
            return None
        a, b = mask.inputs
        keys, number = (b, a.op) if type(a.op) is Const else (a, b.op)
        if type(number) is not Const or keys.ndim != 1 or number.value.dtype.kind not in "iuf":
            return None
        if not float(number.value).is_integer():
            return None
        found.append((uncast(keys), int(number.value)))
    keys, first = found[0]
    if keys.dtype.kind not in "iu" or found != [(keys, first + j) for j in range(len(found))]:
        return None
    if first == 0:
        return keys
    d = np.dtype(np.int64)
    wide = keys if keys.dtype.itemsize == 8 else cast(keys, d)
    if wide.dtype.kind == "u" and first < 0:
        return None
    return apply("subtract", (wide, const(wide.dtype.type(first))), (wide.dtype,) * 3)
