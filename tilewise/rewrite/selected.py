"""Reductions over what a mask selects, where it lies. In: wanted nodes. Out: equal ones.

x[mask].sum(0) => where(mask, x, 0).sum(0), over all axes of the mask. For meshes: nothing has to know how many the mask
keeps, and no rows move. Of extremes NumPy refuses an empty selection, so these come with whether there is any (Some).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tilewise.ir.node import Node, intern, numbered
from tilewise.ir.reductions import by_name, splits
from tilewise.ir.scalar import UFUNCS
from tilewise.ops.const import const
from tilewise.ops.contract import Contract
from tilewise.ops.create import arange
from tilewise.ops.elementwise import Map, apply
from tilewise.ops.rearrange import arranged
from tilewise.ops.reduce import Arg, Reduce, arg, reduce
from tilewise.ops.some import some
from tilewise.ops.traits.rule import LETTERS
from tilewise.rewrite.masked import selected_axis, unmasked

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


_REDUCTIONS = frozenset((Reduce, Arg, Contract))


def _reduces_selection(n: Node) -> bool:
    """Whether a node reduces an axis that a mask decides the length of, to something of a known shape."""
    if n.value is not None or not n.known or type(n.op) not in _REDUCTIONS or all([x.known for x in n.inputs]):
        return False
    axes = [selected_axis(x) for x in n.inputs if not x.known]
    if None in axes:
        return False
    if isinstance(n.op, Arg):
        return axes[0] == n.op.axis or (n.op.axis is None and axes[0] == 0)
    return isinstance(n.op, Contract) or (isinstance(n.op, Reduce) and splits(n.op.fn))


def _rounds(n: Node) -> bool:
    """Whether another order of the elements gives other bits."""
    adds = isinstance(n.op, Contract) or (isinstance(n.op, Reduce) and n.op.fn in ("add", "multiply"))
    return adds and n.dtype.kind in "fc"


class _Selection(NamedTuple):
    """What is selected by a mask, before it is: the mask's axes stand in place of one, from `at` on."""

    values: Node
    mask: Node
    at: int

    def axes(self, axes: Iterable[int]) -> tuple[int, ...]:
        """Where axes of the selection are."""
        more = self.mask.ndim - 1
        own = range(self.at, self.at + more + 1)
        return tuple([b for a in axes for b in (own if a == self.at else (a if a < self.at else a + more,))])

    def beside(self, x: Node) -> Node:
        """A mask, or what has its axes, as it stands beside the values."""
        more = self.values.ndim - self.at - x.ndim
        return arranged(x, [*range(x.ndim), *(None,) * more]) if more else x

    def only(self, nothing: np.generic) -> Node:
        """The values, with one that changes nothing in place of those that the mask leaves out."""
        d = self.values.dtype
        return apply("where", (self.beside(self.mask), self.values, const(nothing)), (_BOOL, d, d, d))


def _selection(x: Node) -> _Selection | None:
    at, found = selected_axis(x), unmasked(x)
    if at is None or found is None:
        return None
    values, mask = found
    whole = values.known and values.shape == (*x.shape[:at], *mask.shape, *x.shape[at + 1 :])
    return _Selection(values, mask, at) if whole else None


def _where(n: Node) -> Node | None:
    if isinstance(n.op, Contract):
        made = _product(n)
    else:
        found = _selection(n.inputs[0])
        if found is None:
            return None
        made = _position(n, found) if isinstance(n.op, Arg) else _reduced(n, found)
    return made if made and made.shape == n.shape and made.dtype == n.dtype and made.order == n.order else None


def _reduced(n: Node, selection: _Selection) -> Node:
    op, mask = n.op, selection.mask
    assert isinstance(op, Reduce)
    kept = selection.only(_nothing(op.fn, selection.values.dtype))
    keeps = op.keepdims and mask.ndim == 1
    made = reduce(kept, op.fn, selection.axes(op.axes), keeps, op.dtype)
    if op.keepdims and not keeps:
        left = iter(range(made.ndim))
        made = arranged(made, [None if a in op.axes else next(left) for a in range(n.ndim)])
    if UFUNCS[op.fn].identity is not None or 0 in n.shape:  # of no results NumPy refuses none
        return made
    return some(made, _any(mask), f"zero-size array to reduction operation {op.fn} which has no identity")


def _position(n: Node, selection: _Selection) -> Node | None:
    """The position among all, then how many before it are selected.

    Elements left out are the least there can be. One that comes before an equal one that is selected does no harm:
    then all that are selected are the least, and none is selected before the first of them.
    """
    op, (values, mask, axis) = n.op, selection
    assert isinstance(op, Arg)
    kept, rest = selection.only(_nothing(op.fn, values.dtype)), values.shape[axis + mask.ndim :]
    less = (_INTP, _INTP, _BOOL)
    before: Node
    if op.axis is None or values.ndim == mask.ndim:
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
        at = arg(kept, op.fn, axis, True)
        early = apply("less", (selection.beside(_places(mask)), at), less)
        counted = apply("logical_and", (selection.beside(mask), early), (_BOOL,) * 3)
        before = reduce(counted, "add", (axis,), op.keepdims, _INTP)
    return some(before, _any(mask), f"attempt to get {op.fn} of an empty sequence")


def _product(n: Node) -> Node | None:
    """Zero in place of what the mask leaves out, in all factors: one alone would leave zero times infinity."""
    op = n.op
    assert isinstance(op, Contract)
    ins, out = op.letters.split("->")
    terms, kept = ins.split(","), []
    masks: dict[Node, str] = {}
    for k, x in enumerate(n.inputs):
        if x.known:
            kept.append(x)
            continue
        found = _selection(x)
        if found is None:
            return None
        letter = terms[k][found.at]
        if masks.setdefault(found.mask, letter) != letter or len(masks) > 1:
            return None
        more = [c for c in LETTERS if c not in ins][: found.mask.ndim - 1]
        terms[k] = terms[k].replace(letter, "".join((letter, *more)))
        kept.append(found.only(found.values.dtype.type(0)))
    (mask,) = masks
    if mask.ndim > 1:
        if op.how == "vdot":
            return None
        op = Contract(f"{','.join(terms)}->{out}", "einsum")
    return intern(op, tuple(kept), n.shape, n.dtype, n.order)


def _places(mask: Node) -> Node:
    """The position of each element of a mask among all of them."""
    at = arange(0, 1, mask.shape[0], _INTP)
    for n in mask.shape[1:]:
        across = apply("multiply", (at, const(np.intp(n))), (_INTP,) * 3)
        at = apply("add", (arranged(across, [*range(at.ndim), None]), arange(0, 1, n, _INTP)), (_INTP,) * 3)
    return at


def _nothing(fn: str, dtype: np.dtype[Any]) -> np.generic:
    """What changes no result of a reduction, or is best nowhere."""
    row = by_name(fn)
    found = row.identity(row.kind(dtype))
    return found["value"] if found.dtype.names else found  # type: ignore[no-any-return]


def _any(mask: Node) -> Node:
    return reduce(mask, "logical_or", tuple(range(mask.ndim)), False, _BOOL)
