"""Work that all workers would do alike, done at one place. In: a placed graph. Out: one that moves fewer bytes.

Where time counts, the solver has a small sum brought to all workers: what follows is then done by each of them, and
that takes as long as on one. If nothing of it meets data that are cut, and what is left in the end is much smaller than
the sums, these go to the first block only (the driver's place): a factor W less crosses. What is left may be needed
everywhere later; it is small.
"""

from __future__ import annotations

from dataclasses import replace

from tilewise.ir.node import Node, intern, twin
from tilewise.layout import Layout, Mesh, Replicate, Tariff, at_first, priced_route, reduction
from tilewise.ops.const import Const
from tilewise.ops.move import Move
from tilewise.ops.traits.rule import fits_first
from tilewise.ops.views import Arrange
from tilewise.solver.model.place import Placed

LEFT = 2  # what is made last is at most one part in so many of the sums: bringing it to all later costs little


def at_one_place(placed: Placed, mesh: Mesh, tariff: Tariff) -> Placed:
    """The graph with such sums at the first block; the same graph if there are none."""
    if placed.choice is None or tariff.all_bytes or mesh.grid or mesh.workers == 1:
        return placed
    found = _tails(placed, mesh, tariff)
    return _rebuilt(placed, found, mesh) if found else placed


def _tails(placed: Placed, mesh: Mesh, tariff: Tariff) -> set[int]:
    """The values that may be at one place: sums, and all that is made of them."""
    nodes, layouts = placed.nodes, placed.layouts
    at = {n: i for i, n in enumerate(nodes)}
    ins = [() if n.value is not None else tuple([at[x] for x in n.inputs]) for n in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for i, operands in enumerate(ins):
        for x in operands:
            users[x].append(i)
    sums = {i for i in range(len(nodes)) if ins[i] and _is_sum(nodes[i], layouts[ins[i][0]], layouts[i], mesh, tariff)}
    inside = set(sums)
    for i, n in enumerate(nodes):  # in order: operands come first
        if i not in sums and ins[i] and layouts[i] == Replicate() and _may(n) and any(x in inside for x in ins[i]):
            inside.add(i)
    landed = {pos for _, pos in placed.landed}
    while True:  # what somebody needs elsewhere, or takes from elsewhere, stays; and so does what depends on it
        out = {
            i
            for i in inside
            if i in landed
            or any(u not in inside for u in users[i])
            or (i not in sums and any(x not in inside and type(nodes[x].op) is not Const for x in ins[i]))
        }
        if not out:
            break
        inside -= out
    left = sum(nodes[i].nbytes for i in {*placed.wanted} & inside if not users[i])
    moved = sum(nodes[i].nbytes for i in sums & inside)
    return inside if left * LEFT <= moved else set()


def _is_sum(n: Node, src: Layout, dst: Layout, mesh: Mesh, tariff: Tariff) -> bool:
    """Whether contributions are brought to all workers, and one could have them as soon."""
    if type(n.op) is not Move or reduction(src) is None or dst != Replicate() or not _may(n):
        return False
    first, every = (
        priced_route(src, x, n.dims, mesh, n.dtype.itemsize, tariff).cost for x in (at_first(n.dims, mesh), dst)
    )
    return first <= every


def _may(n: Node) -> bool:
    """Whether a value can be in the first block alone."""
    if not n.known or not n.ndim or not n.dims[0] or not fits_first(n):
        return False
    return not isinstance(n.op, Arrange) or n.op.axes[0] == 0  # what is cut stays the first axis


def _rebuilt(placed: Placed, found: set[int], mesh: Mesh) -> Placed:
    nodes: list[Node] = []
    layouts = list(placed.layouts)
    new: dict[Node, Node] = {}
    known: set[Node] = set()
    for i, n in enumerate(placed.nodes):
        made = n
        if i in found:
            layouts[i] = at_first(n.dims, mesh)
            op = n.op
            if type(op) is Move:
                op = Move(op.src, layouts[i])
            made = intern(op, tuple([new[x] for x in n.inputs]), n.shape, n.dtype, n.order)
            made = twin(made) if made in known else made
            made.site = made.site or n.site
        new[n] = made
        known.add(made)
        nodes.append(made)
    return replace(placed, nodes=tuple(nodes), layouts=tuple(layouts))
