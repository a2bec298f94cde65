"""Results that are computed beside others. In: cells of one call. Out: those to compute when one of them is asked for.

A call of `tw.jit` gives several results that read the same arrays. Asked for one after the other, each would read these
again.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from tilewise.array.cell import LOCK, Cell

# By cell: those to compute with it, itself among them, each with what its node was (which is not held).
SIBLINGS: weakref.WeakKeyDictionary[Cell, list[tuple[weakref.ref[Cell], int]]] = weakref.WeakKeyDictionary()


def compute_beside(cell: Cell, cells: Sequence[Cell]) -> None:
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
