"""Slices of arrays on the driver, sent to workers in the arrays' place. In: wanted nodes. Out: equal ones.

An array that is sent stays on the workers for later, one of its slices does not: so slices are sent until they come to
a share of the array, and then all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tilewise.array.cell import Outside, private_copy
from tilewise.ir.node import Node, intern, known_leaf, numbered
from tilewise.ops.views import Arrange, Cut, Window, arrange, unfold

MOST_SHARE = 0.5  # of an array: what its slices may come to


def sliced_inputs(
    roots: Sequence[Node], here: Callable[[Node], bool], stand_in: Callable[[Node, Cut], Any]
) -> Sequence[Node]:
    """Wanted nodes that read slices of arrays which are here, where nothing needs more of them; else themselves."""
    nodes = numbered(roots)
    parts: dict[Node, dict[Node, Node] | None] = {n: {} for n in nodes if _large(n) and here(n)}
    if not parts:
        return roots
    for n in (*nodes, None):
        for x in roots if n is None else n.inputs if n.value is None else ():
            found = parts.get(x)
            if found is not None:
                shown = None if n is None else _shown(n)
                if shown is None or n is None or n in roots:
                    parts[x] = None
                else:
                    found[n] = shown
    new: dict[Node, Node] = {}
    for x, views in parts.items():
        cuts = {_cut(shown): None for shown in (views or {}).values()}
        if not cuts or not _fits(x, cuts):
            continue
        leaves = {c: known_leaf(stand_in(x, c), x.order) for c in cuts}
        for n, shown in (views or {}).items():
            leaf = leaves[_cut(shown)]
            new[n] = arrange(leaf, shown.op) if type(shown.op) is Arrange else leaf
    return _replaced(roots, new) if new else roots


def part_here(x: Node, cut: Cut) -> Any:
    """A slice of an array, as a value of its own; it counts as sent."""
    outside = _outside(x)
    if outside is not None:
        outside.sent += prod(cut.lengths) * x.dtype.itemsize
    return private_copy(x.value[cut.key()])


def _large(n: Node) -> bool:
    return n.value is not None and n.ndim > 0 and n.known


def _outside(x: Node) -> Outside | None:
    found = getattr(x.op, "exports", None)
    return found if isinstance(found, Outside) else None


def _fits(x: Node, cuts: dict[Cut, None]) -> bool:
    """Whether slices are little of an array, with those that were sent before."""
    outside = _outside(x)
    size = sum(prod(c.lengths) for c in cuts) * x.dtype.itemsize
    return size + (0 if outside is None else outside.sent) <= MOST_SHARE * x.nbytes


def _shown(n: Node) -> Node | None:
    """A slice as a Cut of its base, or an Arrange of one; None if it is none."""
    if type(n.op) not in (Window, Cut):
        return None
    shown = unfold(n) if type(n.op) is Window else n
    cut = shown.inputs[0] if type(shown.op) is Arrange else shown
    return shown if type(cut.op) is Cut and cut.inputs[0] is n.inputs[0] else None


def _cut(shown: Node) -> Cut:
    cut = shown.inputs[0].op if type(shown.op) is Arrange else shown.op
    assert isinstance(cut, Cut)
    return cut


def _replaced(roots: Sequence[Node], new: dict[Node, Node]) -> list[Node]:
    for n in numbered(roots):
        if n not in new:
            same = n.value is not None or all(new[x] is x for x in n.inputs)
            new[n] = n if same else intern(n.op, tuple(new[x] for x in n.inputs), n.shape, n.dtype, n.order)
            new[n].site = new[n].site or n.site
    return [new[r] for r in roots]
