"""Conditional reductions: sums over the rows that a mask selects, one sum per key. In: siblings. Out: one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewise.ir.node import Length, Node, intern
from tilewise.ir.order import broadcast_order
from tilewise.ops.bucket import bucket
from tilewise.ops.const import Const, const
from tilewise.ops.contract import Contract
from tilewise.ops.elementwise import Map, apply, broadcast, cast, seen
from tilewise.ops.index import Compress
from tilewise.ops.rearrange import arranged
from tilewise.ops.reduce import Reduce, reduce
from tilewise.ops.views import Arrange
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

    In place of the axis that is selected (`selected_axis`) it has those of the mask.
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
        elif type(n.op) not in _WITHOUT_MASK or selected_axis(n) is None:
            return None
        elif missing := [x for x in n.inputs if x not in new]:
            stack += missing
        else:
            if len(masks) != 1:
                return None
            (mask,) = masks
            made = _WITHOUT_MASK[type(n.op)](n, [new[x] for x in n.inputs], mask)
            if made is None:
                return None
            new[n] = made
            stack.pop()
    return (new[top], masks.pop()) if len(masks) == 1 else None


def selected_axis(n: Node) -> int | None:
    """The one axis that a mask decides the length of; None where there is none, or several.

    (n, 1)[mask] * (n,)[mask] is selected along two.
    """
    found = [k for k, d in enumerate(n.shape) if type(d) is Length]
    return found[0] if len(found) == 1 else None


def _each(n: Node, ins: Sequence[Node], mask: Node) -> Node | None:
    """An elementwise operator."""
    k = selected_axis(n)
    assert k is not None
    after = n.ndim - 1 - k
    ins = [_apart(new, mask.ndim, after) if old.known else new for old, new in zip(n.inputs, ins, strict=True)]
    shape = broadcast([x.shape for x in ins])
    if shape != (*n.shape[:k], *mask.shape, *n.shape[k + 1 :]):
        return None
    return intern(n.op, tuple(ins), shape, n.dtype, broadcast_order(len(shape), [(seen(x), x.order) for x in ins]))


def _apart(x: Node, count: int, after: int) -> Node:
    """An operand beside what is selected: its axis of one element becomes as many as the mask has."""
    at = x.ndim - 1 - after
    return arranged(x, [*range(at + 1), *(None,) * (count - 1), *range(at + 1, x.ndim)]) if at >= 0 and count > 1 else x


def _along_others(n: Node, ins: Sequence[Node], mask: Node) -> Node | None:
    """A reduction along axes that no mask selects."""
    op, k = n.op, selected_axis(n.inputs[0])
    assert isinstance(op, Reduce)
    if k is None:
        return None
    axes = tuple([a if a < k else a + mask.ndim - 1 for a in op.axes])
    return reduce(ins[0], op.fn, axes, op.keepdims, op.dtype)


def _turned(n: Node, ins: Sequence[Node], mask: Node) -> Node | None:
    """Axes in another order, and new ones."""
    op, k = n.op, selected_axis(n.inputs[0])
    assert isinstance(op, Arrange)
    if k is None or k not in op.axes:
        return None
    axes: list[int | None] = []
    for a in op.axes:
        at = a if a is None or a < k else a + mask.ndim - 1
        axes += range(k, k + mask.ndim) if a == k else (at,)
    return arranged(ins[0], axes)


def _rows(n: Node, ins: Sequence[Node], mask: Node) -> Node | None:
    """A product whose rows, say, are selected: x[mask] @ w."""
    k = selected_axis(n)
    if k is None or mask.ndim > 1:
        return None
    return intern(n.op, tuple(ins), (*n.shape[:k], *mask.shape, *n.shape[k + 1 :]), n.dtype, n.order)


_WITHOUT_MASK: dict[type, Callable[[Node, Sequence[Node], Node], Node | None]] = {
    Map: _each,
    Reduce: _along_others,
    Arrange: _turned,
    Contract: _rows,
}


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
