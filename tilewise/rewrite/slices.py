"""Elementwise work on a part of an array, where only a part is asked for. In: wanted nodes. Out: equal ones.

(x * 2)[:, :5] => x[:, :5] * 2, where nothing else needs x * 2. For meshes: there, an operator's result is a value with
a layout of its own, and what is computed but not shown may cross between workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from math import prod

from tilewise.ir.node import Node, intern, numbered
from tilewise.ops.elementwise import Map
from tilewise.ops.views import Arrange, Cut, Window, arrange, unfold, view

MOST_SHARE = 0.5  # of a result: a part that is larger is taken of the result, as shifted slices of stencils are


def narrow(roots: Sequence[Node], nodes: Collection[Node] | None = None) -> Sequence[Node]:
    """The wanted nodes, with slices taken before elementwise operators that nothing else needs; themselves if none.

    `nodes`: what `numbered` gives of them, where that is known.
    """
    nodes = numbered(roots) if nodes is None else nodes
    if not any([type(n.op) is Window and _sliced(n) for n in nodes]):
        return roots
    users = Counter(x for n in nodes if n.value is None for x in dict.fromkeys(n.inputs))
    users.update(roots)
    new: dict[Node, Node] = {}
    lone: set[Node] = set()  # operators that one other needs, as they are now
    for n in nodes:
        made = n
        if n.value is None and any(new[x] is not x for x in n.inputs):
            made = intern(n.op, tuple(new[x] for x in n.inputs), n.shape, n.dtype, n.order)
        if _sliced(n):
            made = _before(made, lone) or made
        if made is not n and made.site is None:
            made.site = n.site
        new[n] = made
        if type(made.op) is Map and made.value is None and made.known and users[n] == 1:
            lone.add(made)
    return [new[r] for r in roots]


def _sliced(n: Node) -> bool:
    """Whether a node is a small part of what an elementwise operator gives."""
    if type(n.op) is not Window or n.value is not None or not n.known:
        return False
    base = n.inputs[0]
    return type(base.op) is Map and base.value is None and base.known and n.size <= MOST_SHARE * base.size


def _before(n: Node, lone: set[Node]) -> Node | None:
    """A view of an operator's result as an operator on views; None where that is no slice or may move more."""
    base = n.inputs[0]
    shown = unfold(n)
    cut = shown.inputs[0] if type(shown.op) is Arrange else shown
    if base not in lone or type(cut.op) is not Cut or cut.inputs[0] is not base or not _narrows(base, cut.op):
        return None
    found = _cut(base, cut.op, lone)
    return arrange(found, shown.op) if type(shown.op) is Arrange else found


def _narrows(base: Node, cut: Cut) -> bool:
    """Whether parts of operands are no more than the part of the result, should they have to move."""
    large = {x for x in base.inputs if prod(x.dims) * MOST_SHARE > prod(cut.lengths)}
    return len(large) < 2 and all(x.dtype.itemsize <= base.dtype.itemsize for x in large)


def _cut(x: Node, cut: Cut, lone: set[Node]) -> Node:
    """A part of a value; of an elementwise operator's that nothing else needs, from parts of its operands."""
    own = slice(len(cut.lengths) - x.ndim, None)
    axes = zip(x.dims, cut.starts[own], cut.steps[own], cut.lengths[own], strict=True)
    kept = [(0, 1, 1) if d == 1 else (start, step, length) for d, start, step, length in axes]
    part = Cut(*(tuple(k[i] for k in kept) for i in range(3)))
    if part.lengths == x.dims and min(part.steps, default=1) > 0:
        return x
    if x in lone and _narrows(x, part):
        made = intern(x.op, tuple(_cut(y, part, lone) for y in x.inputs), part.lengths, x.dtype, x.order)
    elif type(x.op) is Window and x.value is None and 0 not in part.lengths:
        made = _composed(x, part)
    else:
        made = intern(part, (x,), part.lengths, x.dtype, x.order)
    made.site = made.site or x.site
    return made


def _composed(x: Node, part: Cut) -> Node:
    """A part of a view as a view of its base."""
    w = x.op
    assert isinstance(w, Window)
    offset = w.offset + sum(start * stride for start, stride in zip(part.starts, w.strides, strict=True))
    strides = tuple(step * stride for step, stride in zip(part.steps, w.strides, strict=True))
    return view(x.inputs[0], offset, part.lengths, strides, w.dtype)
