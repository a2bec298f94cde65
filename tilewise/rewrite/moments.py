"""Variances along cut axes by one exchange. In: nodes of a graph for a mesh. Out: an equal graph with contributions.

A mean and the squared deviations from it become components of one value, whose contributions each block makes in one
pass (ops/moments.py). Which of the two costs less is for the solver to say: compiler/mesh.py asks it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from tilewise.ir.node import Node
from tilewise.ops.const import Const
from tilewise.ops.moments import component, moments
from tilewise.ops.reduce import Reduce
from tilewise.rewrite.replaced import Add, replaced
from tilewise.stage.variance import Deviations, deviations


def variances(nodes: Sequence[Node], leaves: Collection[Node]) -> dict[int, Deviations]:
    """The sums of squared deviations from a mean, by their positions."""
    found: dict[int, Deviations] = {}
    for i, n in enumerate(nodes):
        if type(n.op) is Reduce and n not in leaves and (about := deviations(n)) is not None:
            inner = (n.inputs[0], about.off, about.mean, about.total)
            if not any(x in leaves for x in inner) and about.value.known and _is_mean(about):
                found[i] = about
    return found


def _is_mean(about: Deviations) -> bool:
    """Whether the sum is divided by the number of its terms."""
    terms = prod(about.value.dims[a] for a in about.total.op.axes)
    count = about.count.op
    return type(count) is Const and terms > 0 and bool(count.value == count.value.dtype.type(terms))


def with_moments(
    nodes: Sequence[Node], wanted: Sequence[int], leaves: Collection[Node], found: dict[int, Deviations]
) -> tuple[list[Node], list[int]]:
    """The graph in which these sums, and the means that they are about, are components; and what is wanted there."""
    means = {about.mean: about for about in found.values()}

    def make(i: int, n: Node, new: dict[Node, Node], add: Add) -> Node | None:
        about = found.get(i) or means.get(n)
        if about is None:
            return None
        kept = about.total.op.keepdims
        both = add(moments(new[about.value], about.total.op.axes, kept))
        if n is about.mean:
            return add(component(both, "mean", n, kept))
        assert isinstance(n.op, Reduce)
        return add(component(both, "squares", n, n.op.keepdims))

    return replaced(nodes, wanted, leaves, make)
