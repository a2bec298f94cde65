"""Results of one call that are computed together. In: results of a call. Out: for each, those that go along with it.

A call of `tw.jit` gives several results that read the same arrays. Asked for one after the other, each would read these
again.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from tilewise.array.cell import LOCK, Cell
from tilewise.ir.node import Node, walk
from tilewise.ops.const import Const
from tilewise.ops.elementwise import HEAVY, Map
from tilewise.ops.index import Update
from tilewise.ops.reduce import Arg, Reduce
from tilewise.ops.views import Arrange, Window

BESIDE_BYTES, BESIDE_NODES = 64 << 10, 32  # of a result that takes little beside one that reads the same
COMMON = 4  # times what a result takes by itself, that it has in common with another one
BESIDE = frozenset((Map, Reduce, Arg, Window, Arrange))
ALONG = frozenset((Map, Update, Window, Arrange))

# By cell: those to compute with it, itself among them, each with what its node was (which is not held).
SIBLINGS: weakref.WeakKeyDictionary[Cell, list[tuple[weakref.ref[Cell], int]]] = weakref.WeakKeyDictionary()
ANY = SIBLINGS.data  # type: ignore[attr-defined]  # asked for each evaluation: its length is no call of Python


def compute_together(cell: Cell, cells: Sequence[Cell]) -> None:
    """When this pending cell is asked for, compute all of these: it takes little, and they may be asked for next.

    It is one of them: whichever is asked for, they are computed in one order, by one plan.
    """
    with LOCK:
        SIBLINGS[cell] = [(weakref.ref(c), id(c.node)) for c in cells if c.node is not None]


def taken(cells: Sequence[Cell]) -> list[Cell]:
    """The cells to compute with these, unless they stand for something else by now. They are forgotten."""
    found: dict[Cell, None] = {}
    for c in cells:
        for ref, node in SIBLINGS.pop(c, ()):
            other = ref()
            if other is not None and id(other.node) == node and other.owner is c.owner:
                found[other] = None
    for other in found:
        SIBLINGS.pop(other, None)
    return list(found)


def together(roots: Sequence[Node]) -> list[list[int]]:
    """For each of several results, those that the same passes compute with it, should someone ask for them, too.

    They read nothing else. They are small and take little: a few operators on elements and reductions; or they have
    most of their work in common with it.
    """
    if len(roots) < 2:
        return [[] for _ in roots]
    graphs = [list(walk([r])) for r in roots]
    reads = [{n for n in g if not n.inputs and type(n.op) is not Const} for g in graphs]
    most = [max((n.nbytes for n in leaves), default=0) for leaves in reads]
    little = [
        r.nbytes <= BESIDE_BYTES
        and len(g) <= BESIDE_NODES
        and all(type(n.op) in BESIDE and n.nbytes <= size for n in g if n.inputs)
        for r, g, size in zip(roots, graphs, most, strict=True)
    ]

    def goes_with(k: int, j: int) -> bool:
        return reads[k] <= reads[j] and (little[k] or _common(graphs[k], graphs[j], most[j]))

    return [[k for k in range(len(roots)) if k != j and goes_with(k, j)] for j in range(len(roots))]


def _common(graph: Sequence[Node], other: Sequence[Node], size: int) -> bool:
    """Whether most of a graph is part of another, and the rest are operators on no more elements than that reads.

    Fields that a loop updates in turn, say: the last iteration of each is its own.
    """
    shared = set(other)
    own = [n for n in graph if n not in shared and n.inputs]
    work = [sum(_work(n) for n in part) for part in (own, (n for n in graph if n in shared))]
    return all(type(n.op) in ALONG and n.nbytes <= size for n in own) and COMMON * work[0] <= work[1]


def _work(n: Node) -> int:
    """Simple instructions for an element, roughly."""
    return n.op.weight if type(n.op) is Map else HEAVY if n.inputs else 0
