"""Windows as operators that a mesh has rules for. In: a view node. Out: cuts, arrangements, reshapes of its base."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from tilewise.ir.node import Node, intern
from tilewise.ir.order import Order, by_strides, strides_of
from tilewise.ops.diagonal import diagonal
from tilewise.ops.reshape import reshape
from tilewise.ops.views.cut import Arrange, ComplexPart, Cut, arrange
from tilewise.ops.views.window import Window, view, walks


def apart(node: Node) -> Node:
    """A view of the parts of complex numbers as a view of an array of these; any other view as it is."""
    w = node.op
    assert isinstance(w, Window)
    half = w.dtype.itemsize
    if w.base_dtype.kind != "c" or w.dtype.kind != "f" or 2 * half != w.base_dtype.itemsize or 0 in w.shape:
        return node
    if w.offset % half or any(s % (2 * half) for n, s in zip(w.shape, w.strides, strict=True) if n > 1):
        return node
    base, imaginary = node.inputs[0], w.offset // half % 2
    parts = intern(ComplexPart(bool(imaginary)), (base,), base.shape, w.dtype, base.order)
    return view(parts, (w.offset - imaginary * half) // 2, w.shape, tuple(s // 2 for s in w.strides), w.dtype)


def unfold(node: Node) -> Node:
    """A view node as a Cut and an Arrange of its base, or of its base reshaped; itself if it is none of these."""
    op = node.op
    assert isinstance(op, Window)
    base = node.inputs[0]
    found = _cut_out(op, base.order)
    if found is None:
        return _tied(op, node) or _refolded(op, node)
    cut, arranged, order = found
    part = intern(cut, (base,), cut.lengths, node.dtype, base.order)
    return part if arranged is None else intern(arranged, (part,), arranged.lengths, node.dtype, order)


@lru_cache(maxsize=4096)
def _cut_out(w: Window, order: Order) -> tuple[Cut, Arrange | None, Order] | None:
    """A view as a cut of a base in some memory order, its axes arranged (None: as they are), and the order then."""
    found = walks(w)
    if found is None:
        return None
    axes, starts = found
    ndim = len(w.base_shape)
    steps, lengths = [1] * ndim, [1] * ndim
    for a in axes:
        if a.base is not None:
            steps[a.base], lengths[a.base] = a.step, a.length
    cut = Cut(starts, tuple(steps), tuple(lengths))
    places, shape = tuple([a.base for a in axes]), tuple([a.length for a in axes])
    if places == tuple(range(ndim)):
        return cut, None, order
    strides = strides_of(cut.lengths, w.dtype.itemsize, order)
    return cut, Arrange(places, shape), by_strides(shape, [0 if a is None else strides[a] for a in places])


def _tied(w: Window, node: Node) -> Node | None:
    """A view that walks along two axes of its base at once, and perhaps along others: a diagonal."""
    base = node.inputs[0]
    strides = strides_of(w.base_shape, w.base_dtype.itemsize, w.base_order)
    for k, a, b in itertools.product(range(len(w.shape)), range(base.ndim), range(base.ndim)):
        if a < b and w.shape[k] > 1 and w.strides[k] == strides[a] + strides[b]:
            rest = [n for n in range(len(w.shape)) if n != k]
            shape, steps = (tuple(x[n] for n in rest) for x in (w.shape, w.strides))
            found = walks(replace(w, shape=shape, strides=steps))
            if found is None or any(x.base in (a, b) for x in found[0]):
                continue
            axes, starts = found
            if max(starts[a] + w.shape[k] - w.base_shape[a], starts[b] + w.shape[k] - w.base_shape[b]) > 0:
                continue
            kept = [n for n in range(base.ndim) if n not in (a, b)]
            walk = {x.base: x for x in axes if x.base is not None}
            lengths = [n if d in (a, b) else walk[d].length if d in walk else 1 for d, n in enumerate(w.base_shape)]
            first = [0 if d in (a, b) else starts[d] for d in range(base.ndim)]
            part = _part(base, first, lengths, [walk[d].step if d in walk else 1 for d in range(base.ndim)])
            line = diagonal(part, (a, b), (starts[a], starts[b]), w.shape[k])
            order: list[int | None] = [None if x.base is None else kept.index(x.base) for x in axes]
            order.insert(k, line.ndim - 1)
            return line if order == list(range(line.ndim)) else arrange(line, Arrange(tuple(order), w.shape))
    return None


def _refolded(w: Window, node: Node) -> Node:
    """A view whose strides nest: the base's memory in one line, folded into rows of these strides, and a part of that.

    `x.reshape(-1, 2)[:, 0]` is every second element of the line.
    """
    if w.dtype != w.base_dtype or 0 in w.base_shape or 0 in w.shape:
        return node
    item, base = w.dtype.itemsize, node.inputs[0]
    total = math.prod(w.base_shape)
    walks = sorted(
        ((abs(s), k) for k, (n, s) in enumerate(zip(w.shape, w.strides, strict=True)) if n > 1 and s), reverse=True
    )
    if not walks or w.offset % item or any(s % item for s, _ in walks):
        return node
    first = sum(s * (n - 1) for n, s in zip(w.shape, w.strides, strict=True) if s < 0)  # the lowest address
    offset, steps = (w.offset + first) // item, [s // item for s, _ in walks]
    if any(a == b or a % b for a, b in itertools.pairwise(steps)):
        return node
    if base.order is not None:
        base = arrange(base, Arrange(base.order, tuple(w.base_shape[a] for a in base.order)))
    low, span = 0, total
    if total % steps[0]:  # the last row is not whole: only the rows that are shown
        low, span = offset // steps[0] * steps[0], w.shape[walks[0][1]] * steps[0]
    if len(steps) == 1:
        rows = _part(_folded(base, (total,)), [offset], [w.shape[walks[0][1]]], [steps[0]])
    else:
        if low + span > total:
            return node
        line = _folded(base, (total,)) if span < total else base
        if span < total:
            line, offset = _part(line, [low], [span], [1]), offset - low
        shape, starts, lengths = [span // steps[0]], [offset // steps[0]], [w.shape[walks[0][1]]]
        for (step, (_, k)), before in zip(list(zip(steps, walks, strict=True))[1:], steps, strict=False):
            shape.append(before // step)
            starts.append(offset % before // step)
            lengths.append(w.shape[k])
        if steps[-1] > 1:
            shape.append(steps[-1])
            starts.append(offset % steps[-1])
            lengths.append(1)
        if any(a + n > d for a, n, d in zip(starts, lengths, shape, strict=True)):
            return node
        rows = _part(_folded(line, tuple(shape)), starts, lengths, [1] * len(shape))
    back = [k for _, k in walks]
    turned = [w.strides[k] < 0 for k in back] + [False] * (rows.ndim - len(back))
    if any(turned):
        starts = [n - 1 if t else 0 for n, t in zip(rows.dims, turned, strict=True)]
        rows = _part(rows, starts, list(rows.dims), [-1 if t else 1 for t in turned])
    order = tuple(back.index(k) if k in back else None for k in range(len(w.shape)))
    return rows if order == tuple(range(rows.ndim)) else arrange(rows, Arrange(order, w.shape))


def _folded(x: Node, shape: tuple[int, ...]) -> Node:
    return x if x.dims == shape else reshape(x, shape, "C")


def _part(x: Node, starts: Sequence[int], lengths: Sequence[int], steps: Sequence[int]) -> Node:
    """x[start::step][:length] along every axis; x itself if that is all of it."""
    if tuple(lengths) == x.dims and min(steps) > 0:
        return x
    op = Cut(tuple(starts), tuple(steps), tuple(lengths))
    return intern(op, (x,), op.lengths, x.dtype, x.order)
