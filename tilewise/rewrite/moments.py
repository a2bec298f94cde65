"""Variances along cut axes by one exchange. In: nodes of a graph for a mesh. Out: an equal graph with contributions.

A mean and the squared deviations from it become components of one value, whose contributions each block makes in one
pass (ops/moments.py). Which of the two costs less is for the solver to say: compiler.py asks it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from tilewise.ir.node import Node, intern
from tilewise.ops.const import Const
from tilewise.ops.moments import component, moments
from tilewise.ops.reduce import Reduce
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
    """The graph in which these sums, and the means that they are about, are components; and what is wanted there.

    Leaves and constants stay, in their order: a run gives their values by it.
    """
    new: dict[Node, Node] = {}
    order: dict[Node, None] = {}
    means = {about.mean: about for about in found.values()}

    def add(n: Node, like: Node) -> Node:
        n.site = n.site or like.site
        order.setdefault(n)
        return n

    for i, n in enumerate(nodes):
        about = found.get(i) or means.get(n)
        if n in leaves or n.value is not None or type(n.op) is Const:
            new[n] = add(n, n)
        elif about is not None:
            kept = about.total.op.keepdims
            both = add(moments(new[about.value], about.total.op.axes, kept), n)
            if n is about.mean:
                new[n] = add(component(both, "mean", n, kept), n)
            else:
                assert isinstance(n.op, Reduce)
                new[n] = add(component(both, "squares", n, n.op.keepdims), n)
        else:
            inputs = tuple(new[x] for x in n.inputs)
            same = all(a is b for a, b in zip(inputs, n.inputs, strict=True))
            new[n] = add(n if same else intern(n.op, inputs, n.shape, n.dtype, n.order), n)
    return _alive(list(order), {new[nodes[w]] for w in wanted}, leaves, [new[nodes[w]] for w in wanted])


def _alive(
    nodes: list[Node], ends: set[Node], leaves: Collection[Node], wanted: list[Node]
) -> tuple[list[Node], list[int]]:
    """Without what nobody needs any more."""
    needed = set(ends)
    kept: list[Node] = []
    for n in reversed(nodes):
        given = n in leaves or n.value is not None or type(n.op) is Const
        if n in needed or given:
            kept.append(n)
            needed.update(() if given else n.inputs)
    kept.reverse()
    at = {n: i for i, n in enumerate(kept)}
    return kept, [at[n] for n in wanted]
