"""Reductions over what a mask selects, where it lies. In: wanted nodes. Out: equal ones.

x[mask].sum(0) => where(mask, x, 0).sum(0), over all axes of the mask. For meshes: nothing has to know how many the mask
keeps, and no rows move. Of extremes NumPy refuses an empty selection, so these come with whether there is any (Some).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

import numpy as np

from tilewise.ir.node import Length, Node, intern, numbered
from tilewise.ir.reductions import by_name, splits
from tilewise.ir.scalar import UFUNCS
from tilewise.ops.const import const
from tilewise.ops.create import arange
from tilewise.ops.elementwise import Map, apply
from tilewise.ops.rearrange import arranged
from tilewise.ops.reduce import Arg, Reduce, arg, reduce
from tilewise.ops.some import some
from tilewise.rewrite.masked import unmasked

_BOOL, _INTP = np.dtype(bool), np.dtype(np.intp)


def select(roots: Sequence[Node], exact: bool, nodes: Collection[Node] | None = None) -> Sequence[Node]:
    """The wanted nodes, with masks in place of selections that are only reduced; themselves if there are none.

    `nodes`: what `numbered` gives of them, where that is known.
    """
    nodes = numbered(roots) if nodes is None else nodes
    if not any([type(n.op) in _REDUCTIONS and _reduces_selection(n) for n in nodes]):
        return roots
    new: dict[Node, Node] = {}
    for n in nodes:
        made = n
        if n.value is None and any(new[x] is not x for x in n.inputs) and (n.known or type(n.op) is Map):
            made = intern(n.op, tuple(new[x] for x in n.inputs), n.shape, n.dtype, n.order)
        if _reduces_selection(made) and not (exact and _rounds(made)):
            made = _where(made) or made
        made.site = made.site or n.site
        new[n] = made
    return [new[r] for r in roots] if any(new[r] is not r for r in roots) else roots


_REDUCTIONS = frozenset((Reduce, Arg))


def _reduces_selection(n: Node) -> bool:
    """Whether a node reduces an axis that a mask decides the length of, to something of a known shape."""
    if n.value is not None or not n.known or type(n.op) not in _REDUCTIONS or n.inputs[0].known:
        return False
    if type(n.inputs[0].shape[0]) is not Length:
        return False
    if isinstance(n.op, Arg):
        return n.op.axis in (None, 0)
    return isinstance(n.op, Reduce) and 0 in n.op.axes and splits(n.op.fn)


def _rounds(n: Node) -> bool:
    """Whether another order of the elements gives other bits."""
    return isinstance(n.op, Reduce) and n.op.fn in ("add", "multiply") and n.dtype.kind in "fc"


def _where(n: Node) -> Node | None:
    found = unmasked(n.inputs[0])
    if found is None:
        return None
    values, mask = found
    if not values.known or values.shape[: mask.ndim] != mask.shape:
        return None
    made = _position(n, values, mask) if isinstance(n.op, Arg) else _reduced(n, values, mask)
    return made if made and made.shape == n.shape and made.dtype == n.dtype and made.order == n.order else None


def _reduced(n: Node, values: Node, mask: Node) -> Node:
    op, axes = n.op, range(mask.ndim)
    assert isinstance(op, Reduce)
    others = [a + mask.ndim - 1 for a in op.axes if a > 0]
    keeps = op.keepdims and mask.ndim == 1
    made = reduce(_only(values, mask, op.fn), op.fn, (*axes, *others), keeps, op.dtype)
    if op.keepdims and not keeps:
        left = iter(range(made.ndim))
        made = arranged(made, [None if a in op.axes else next(left) for a in range(n.ndim)])
    if UFUNCS[op.fn].identity is not None or 0 in n.shape:  # of no results NumPy refuses none
        return made
    return some(made, _any(mask), f"zero-size array to reduction operation {op.fn} which has no identity")


def _position(n: Node, values: Node, mask: Node) -> Node | None:
    """The position among all, then how many before it are selected.

    Elements left out are the least there can be. One that comes before an equal one that is selected does no harm:
    then all that are selected are the least, and none is selected before the first of them.
    """
    op = n.op
    assert isinstance(op, Arg)
    kept, rest = _only(values, mask, op.fn), values.shape[mask.ndim :]
    less = (_INTP, _INTP, _BOOL)
    before: Node
    if op.axis is None or not rest:
        each = const(np.intp(prod(rest)))
        at = arg(kept, op.fn, None, False)
        row = apply("floor_divide", (at, each), (_INTP,) * 3) if rest else at
        counted = apply("logical_and", (mask, apply("less", (_places(mask), row), less)), (_BOOL,) * 3)
        before = reduce(counted, "add", tuple(range(mask.ndim)), False, _INTP)
        if rest:
            first = apply("multiply", (before, each), (_INTP,) * 3)
            before = apply("add", (first, apply("remainder", (at, each), (_INTP,) * 3)), (_INTP,) * 3)
        before = arranged(before, [None] * n.ndim) if n.ndim else before
    elif mask.ndim > 1:
        return None  # a position among some of the axes
    else:
        at = arg(kept, op.fn, 0, True)
        early = apply("less", (_beside(_places(mask), values), at), less)
        counted = apply("logical_and", (_beside(mask, values), early), (_BOOL,) * 3)
        before = reduce(counted, "add", (0,), op.keepdims, _INTP)
    return some(before, _any(mask), f"attempt to get {op.fn} of an empty sequence")


def _places(mask: Node) -> Node:
    """The position of each element of a mask among all of them."""
    at = arange(0, 1, mask.shape[0], _INTP)
    for n in mask.shape[1:]:
        across = apply("multiply", (at, const(np.intp(n))), (_INTP,) * 3)
        at = apply("add", (arranged(across, [*range(at.ndim), None]), arange(0, 1, n, _INTP)), (_INTP,) * 3)
    return at


def _only(values: Node, mask: Node, fn: str) -> Node:
    """The values, with one that changes nothing in place of those that the mask leaves out."""
    d = values.dtype
    row = by_name(fn)
    nothing = row.identity(row.kind(d))
    number = nothing["value"] if nothing.dtype.names else nothing
    return apply("where", (_beside(mask, values), values, const(number)), (_BOOL, d, d, d))


def _beside(x: Node, values: Node) -> Node:
    """A mask, or what has its axes, as it stands beside the values."""
    more = values.ndim - x.ndim
    return arranged(x, [*range(x.ndim), *(None,) * more]) if more else x


def _any(mask: Node) -> Node:
    return reduce(mask, "logical_or", tuple(range(mask.ndim)), False, _BOOL)
