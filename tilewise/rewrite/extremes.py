"""What the position of an extreme points at. In: nodes of a graph for a mesh. Out: an equal graph.

`A[arange(n), A.argmax(1)]`: where the rows of A are cut, blocks contribute the greatest element with its position, so
that the element is there with the position, and nobody has to ask its owner for it. compiler/mesh.py tries this where
the solver has chosen contributions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from tilewise.ir.node import Node
from tilewise.ops.index import Gather
from tilewise.ops.reduce import Arg, extreme
from tilewise.rewrite.replaced import Add, replaced


def extremes(nodes: Sequence[Node], wanted: Sequence[int], leaves: Collection[Node]) -> dict[int, int]:
    """Gathers of what positions point at, and the positions, which nobody else needs: where both are."""
    at = {n: i for i, n in enumerate(nodes)}
    users = Counter(x for n in nodes if n not in leaves and n.value is None for x in n.inputs)
    users.update(nodes[w] for w in wanted)
    found = {}
    for i, n in enumerate(nodes):
        if n not in leaves and (where := _points(n)) is not None and where not in leaves and users[where] == 1:
            found[i] = at[where]
    return found


def _points(n: Node) -> Node | None:
    """The positions of extremes along an axis of a matrix, if that is what a node picks."""
    op = n.op
    if not isinstance(op, Gather) or n.value is not None or op.counting is None or op.take:
        return None
    base, *index = n.inputs
    if base.ndim != 2 or set(op.key) != {("a", 0), ("a", 1)} or len(index) != 2:
        return None
    axis = op.key.index(("a", 1 - op.counting))
    where = index[1 - op.counting]
    along = isinstance(where.op, Arg) and where.value is None and where.op.axis == axis and not where.op.keepdims
    return where if along and where.inputs[0] is base and where.shape == n.shape else None


def with_extremes(
    nodes: Sequence[Node], wanted: Sequence[int], leaves: Collection[Node], found: Collection[int]
) -> tuple[list[Node], list[int]]:
    """The graph in which these gathers are the extremes; and what is wanted there."""

    def make(i: int, n: Node, new: dict[Node, Node], add: Add) -> Node | None:
        if i not in found:
            return None
        where = _points(n)
        assert where is not None and n.order is None
        return add(extreme(new[where]))

    return replaced(nodes, wanted, leaves, make)
