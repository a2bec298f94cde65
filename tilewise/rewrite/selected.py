"""Reductions over what a mask selects, where it lies. In: wanted nodes. Out: equal ones.

x[mask].sum(0) => where(mask, x, 0).sum(0), over all axes of the mask. For meshes: nothing has to know how many the mask
keeps, and no rows move.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tilewise.ir.node import Length, Node, intern, numbered
from tilewise.ops.const import const
from tilewise.ops.elementwise import Map, apply
from tilewise.ops.rearrange import arranged
from tilewise.ops.reduce import Reduce, reduce
from tilewise.rewrite.masked import unmasked

# What takes no part in a reduction. Not those of which NumPy refuses an empty selection.
_NEUTRAL = {"add": 0, "multiply": 1, "logical_or": 0, "logical_and": 1}
_BOOL = np.dtype(bool)


def select(roots: Sequence[Node], exact: bool, nodes: Collection[Node] | None = None) -> Sequence[Node]:
    """The wanted nodes, with masks in place of selections that are only reduced; themselves if there are none.

    `nodes`: what `numbered` gives of them, where that is known.
    """
    nodes = numbered(roots) if nodes is None else nodes
    if not any([type(n.op) is Reduce and _reduces_selection(n) for n in nodes]):
        return roots
    new: dict[Node, Node] = {}
    for n in nodes:
        made = n
        if n.value is None and any(new[x] is not x for x in n.inputs) and (n.known or type(n.op) is Map):
            made = intern(n.op, tuple(new[x] for x in n.inputs), n.shape, n.dtype, n.order)
        if _reduces_selection(made) and not (exact and n.dtype.kind in "fc"):
            made = _where(made) or made
        made.site = made.site or n.site
        new[n] = made
    return [new[r] for r in roots] if any(new[r] is not r for r in roots) else roots


def _reduces_selection(n: Node) -> bool:
    """Whether a node reduces an axis that a mask decides the length of, to something of a known shape."""
    if n.value is not None or type(n.op) is not Reduce or n.op.fn not in _NEUTRAL or 0 not in n.op.axes:
        return False
    return n.known and not n.inputs[0].known and type(n.inputs[0].shape[0]) is Length


def _where(n: Node) -> Node | None:
    found = unmasked(n.inputs[0])
    if found is None:
        return None
    values, mask = found
    assert isinstance(n.op, Reduce)
    axes = range(mask.ndim)
    if not values.known or values.shape[: mask.ndim] != mask.shape:
        return None
    column = mask if values.ndim == mask.ndim else arranged(mask, [*axes, *(None,) * (values.ndim - mask.ndim)])
    d = values.dtype
    kept = apply("where", (column, values, const(d.type(_NEUTRAL[n.op.fn]))), (_BOOL, d, d, d))
    others = [a + mask.ndim - 1 for a in n.op.axes if a > 0]
    made = reduce(kept, n.op.fn, (*axes, *others), n.op.keepdims, n.op.dtype)
    return made if made.shape == n.shape and made.dtype == n.dtype and made.order == n.order else None
