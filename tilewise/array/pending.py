"""Which cells are pending. In: cells as they are recorded. Out: those that must still be computed. Computes nothing."""

from __future__ import annotations

import weakref

from tilewise.array.cell import Cell
from tilewise.array.session import session_here
from tilewise.ops.create import Arange, Full
from tilewise.ops.views import Window
from tilewise.store.base import Source

# Every pending cell, by id. Cells that died or became known go when the next one is looked for: a callback for each
# would cost a tenth of recording.
PENDING: dict[int, weakref.ref[Cell]] = {}

CHEAP = (Full, Arange, Window)  # not kept as intermediate values: computing them again costs no more than storing


def register(cell: Cell) -> None:
    """Note a cell that became pending."""
    PENDING[id(cell)] = weakref.ref(cell)
    cell.owner = session_here()


def pending_cells() -> list[Cell]:
    """All cells that must still be computed."""
    found = []
    for key, ref in PENDING.copy().items():
        cell = ref()
        if cell is not None and waiting(cell):
            found.append(cell)
        elif PENDING.get(key) is ref:  # else another cell is there by now
            PENDING.pop(key, None)  # another thread may have taken it out
    return found


def waiting(c: Cell) -> bool:
    """Whether a cell must be evaluated (a node may have the value that a failed evaluation got to)."""
    node = c.node
    return node is not None and (node.value is None or not isinstance(node.value, Source))
