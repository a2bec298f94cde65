"""Rules by cuts: views, joining, reshaping, writing to windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewise.ir.node import Node
from tilewise.layout import Layout, Mesh, Shard, concat_cuts, even_cuts, slice_cuts, split_cuts
from tilewise.ops.contract import LETTERS
from tilewise.ops.index import Update
from tilewise.ops.join import Concat, Reshape
from tilewise.ops.rules.rule import (
    WHOLE,
    Options,
    Rule,
    axis_cuts,
    by_letters,
    cuts_of,
    specific,
    still_partial,
)
from tilewise.ops.views import Arrange, Cut, explain


@specific.register
def _(op: Cut, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from still_partial(have[0])
    base = node.inputs[0]
    for axis, (start, step, length) in enumerate(zip(op.starts, op.steps, node.shape, strict=True)):
        n = base.shape[axis]
        if n < 2 or step < 1:
            continue
        for cuts in axis_cuts(have[0], axis, n, mesh):
            near = _centred(cuts, start, length, n) if step == 1 and length < n else None
            if near is not None:
                target, ghosts = near
                yield Rule((Shard(axis, cuts, ghosts),), Shard(axis, target))
            if near is None or cuts != even_cuts(n, mesh.total_blocks):  # a part of uneven blocks may be even
                yield Rule((Shard(axis, cuts),), Shard(axis, slice_cuts(cuts, start, step, length)))


def _centred(cuts: tuple[int, ...], start: int, length: int, n: int) -> tuple[tuple[int, ...], tuple[int, int]] | None:
    """Cuts that all windows of this length share, and the ghosts this one then needs; None if those are not few.

    Shifted windows of a stencil (`A[:-2]`, `A[1:-1]`, `A[2:]`) so get the same cuts and pay one halo.
    """
    target = slice_cuts(cuts, (n - length) // 2, 1, length)
    low = high = 0
    smallest = n
    for j in range(len(cuts) - 1):
        own = cuts[j + 1] - cuts[j]
        if target[j] == target[j + 1]:
            continue
        low = max(low, cuts[j] - (target[j] + start))
        high = max(high, target[j + 1] + start - cuts[j + 1])
        smallest = min(smallest, own)
    if max(low, high) * 4 > smallest:
        return None
    return target, (low, high)


@specific.register
def _(op: Arrange, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.inputs[0].ndim]
    out = "".join(term[a] if a is not None else LETTERS[-1 - k] for k, a in enumerate(op.axes))
    yield from by_letters([term], out, node, have, mesh)
    for k, (a, size) in enumerate(zip(op.axes, node.shape, strict=True)):
        if a is None and size >= 2:
            yield Rule((WHOLE,), Shard(k, even_cuts(size, mesh.total_blocks)))
    yield from still_partial(have[0])


@specific.register
def _(op: Update, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    found = explain(op.window)
    base, value = node.inputs
    if found is None:
        return
    axes = found[0]
    for axis, n in enumerate(base.shape):
        if n < 2:
            continue
        where = [k for k, a in enumerate(axes) if a.base == axis]
        if where and axes[where[0]].step < 1:
            continue
        for cuts in axis_cuts(have[0], axis, n, mesh):
            inside: Layout = WHOLE
            if where:
                walk = axes[where[0]]
                k = where[0] - (len(axes) - value.ndim)
                if k >= 0 and value.shape[k] == walk.length and walk.length > 1:
                    inside = Shard(k, slice_cuts(cuts, walk.start, walk.step, walk.length))
            yield Rule((Shard(axis, cuts), inside), Shard(axis, cuts))


@specific.register
def _(op: Concat, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    for axis, size in enumerate(node.shape):
        if size < 2:
            continue
        cuts = even_cuts(size, mesh.total_blocks)
        if axis == op.axis:
            parts = concat_cuts(cuts, tuple(x.shape[axis] for x in node.inputs))
            yield Rule(tuple(Shard(axis, c) for c in parts), Shard(axis, cuts))
        else:
            terms = [term] * len(node.inputs)
            for chosen in cuts_of(term[axis], size, terms, [x.shape for x in node.inputs], have, node, mesh):
                yield Rule((Shard(axis, chosen),) * len(node.inputs), Shard(axis, chosen))


@specific.register
def _(op: Reshape, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from still_partial(have[0])
    if op.order != "C" or node.size == 0:
        return
    for i, o, inner_in, inner_out in _groups(node.inputs[0].shape, node.shape):
        size = node.inputs[0].shape[i]
        even = tuple(c * inner_out // inner_in for c in even_cuts(node.shape[o], mesh.total_blocks))
        for cuts in dict.fromkeys((*axis_cuts(have[0], i, size, mesh), even)):
            if cuts[-1] != size:
                continue
            to = split_cuts(tuple(c * inner_in for c in cuts), inner_out)
            if to is not None:
                yield Rule((Shard(i, cuts),), Shard(o, to))


def _groups(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Groups of axes with equal products: first axis on each side, and elements below it in the group."""
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == 1:
            i += 1
            continue
        if b[j] == 1:
            j += 1
            continue
        pa, pb, ei, ej = a[i], b[j], i + 1, j + 1
        while pa != pb:
            if pa < pb:
                pa *= a[ei]
                ei += 1
            else:
                pb *= b[ej]
                ej += 1
        yield i, j, pa // a[i], pb // b[j]
        i, j = ei, ej
