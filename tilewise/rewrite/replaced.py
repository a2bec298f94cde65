"""A graph with some nodes replaced by others. In: nodes in order, what takes whose place. Out: an equal graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tilewise.ir.node import Node, intern
from tilewise.ops.const import Const

Add = Callable[[Node], Node]  # puts a node into the new graph
Make = Callable[[int, Node, dict[Node, Node], Add], Node | None]


def replaced(
    nodes: Sequence[Node], wanted: Sequence[int], leaves: Collection[Node], make: Make
) -> tuple[list[Node], list[int]]:
    """The graph in which `make` says what takes a node's place (None: the node itself), and what is wanted there.

    Leaves and constants stay, in their order: a run gives their values by it.
    """
    new: dict[Node, Node] = {}
    order: dict[Node, None] = {}
    for i, n in enumerate(nodes):

        def add(made: Node, like: Node = n) -> Node:
            made.site = made.site or like.site
            order.setdefault(made)
            return made

        if n in leaves or n.value is not None or type(n.op) is Const:
            new[n] = add(n)
            continue
        made = make(i, n, new, add)
        if made is None:
            inputs = tuple(new[x] for x in n.inputs)
            same = all(a is b for a, b in zip(inputs, n.inputs, strict=True))
            made = add(n if same else intern(n.op, inputs, n.shape, n.dtype, n.order))
        new[n] = made
    return _alive(list(order), leaves, [new[nodes[w]] for w in wanted])


def _alive(nodes: list[Node], leaves: Collection[Node], wanted: list[Node]) -> tuple[list[Node], list[int]]:
    """Without what nobody needs any more."""
    needed = set(wanted)
    kept: list[Node] = []
    for n in reversed(nodes):
        given = n in leaves or n.value is not None or type(n.op) is Const
        if n in needed or given:
            kept.append(n)
            needed.update(() if given else n.inputs)
    kept.reverse()
    at = {n: i for i, n in enumerate(kept)}
    return kept, [at[n] for n in wanted]
