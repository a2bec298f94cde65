"""What is computed for arrays that are asked for. In: Arrays. Out: cells, those of views' own values among them.

Workers hold what a view shows as a value of its own: all that they compute together is in one plan, the one that
`explain` shows. What the view is a view of is computed with it, unless nobody else has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from weakref import WeakKeyDictionary

from tilewise.array.cell import Cell
from tilewise.array.handle import NUMBER, Array, from_node, node_of
from tilewise.array.pending import CHEAP, waiting
from tilewise.array.session import session_here
from tilewise.ir.node import Node, walk
from tilewise.ops.const import Const
from tilewise.ops.elementwise import Map
from tilewise.ops.views import Window

_ALONE = 2  # references to a cell that one handle has: its own, and getrefcount's argument

_AGAIN = (*CHEAP, Const, Map)  # computing these again costs little

# By cell: what its only handle shows, evaluated. Whoever builds upon the view finds this node, which has the value.
_shown: WeakKeyDictionary[Cell, Node] = WeakKeyDictionary()


def part_of(x: Array) -> Node | None:
    """The node of a view of something that is not here; None where x is all of its cell, or is not to be computed."""
    if x._nd is None or x._cell is NUMBER or x._cell.node is None:
        return None
    node = node_of(x)
    return None if node is x._cell.node or type(node.op) is not Window else node


def only_handle(x: Array) -> bool:
    """Whether nobody but this view has the cell that it is a view of."""
    return getrefcount(x._cell) <= _ALONE


def asked_cells(arrays: Sequence[Array]) -> tuple[list[Cell], list[Cell], list[Cell]]:
    """What to compute for arrays; for each array the cell with its own value; and cells that only views have."""
    needed: list[Cell] = []
    own: list[Cell] = []
    apart: list[Cell] = []
    for x in arrays:
        node = part_of(x)
        if node is None:
            own.append(x._cell)
            needed.append(x._cell)
            continue
        if only_handle(x):
            apart.append(x._cell)
        elif waiting(x._cell):
            needed.append(x._cell)
        part = from_node(node)._cell
        part.owner = session_here()
        own.append(part)
        needed.append(part)
    return needed, own, apart


def shared_with_mask(mask: Node, nodes: Sequence[Node]) -> list[Node]:
    """What a mask and what it selects from are both made of, and takes more than elementwise work: computed once."""
    of_mask = set(walk([mask]))
    used = {x for n in nodes if n not in of_mask and n.value is None for x in n.inputs}
    return [n for n in of_mask & used if n is not mask and n.value is None and not isinstance(n.op, _AGAIN)]


def keep_shown(x: Array, own: Cell) -> None:
    """Note the value of a view whose base has not been computed."""
    node = part_of(x)
    if node is not None and node.value is None and waiting(x._cell) and own.node is not None and not waiting(own):
        node.value = own.node.value
        _shown[x._cell] = node
        if (session := session_here()) is not None:
            session.noted.add(node)  # which may be equal to one of another session's
