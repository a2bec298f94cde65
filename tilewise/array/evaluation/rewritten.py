"""Graphs before they are planned. In: cells that are asked for. Out: these with cheaper nodes, others on the way."""

from __future__ import annotations

from collections.abc import Collection
from sys import getrefcount
from typing import TYPE_CHECKING

from tilewise import compiler
from tilewise.array.cell import Cell
from tilewise.array.pending import CHEAP, PENDING, pending_cells, waiting
from tilewise.array.session import cluster_here, session_here
from tilewise.config import Settings
from tilewise.ir.node import Node, numbered
from tilewise.later import later

if TYPE_CHECKING:
    from tilewise.array import slices
else:
    slices = later("tilewise.array.slices")


def add_living(outputs: list[Cell], at: dict[Node, int], apart: Collection[Cell]) -> None:
    """Add the pending cells that have a handle and whose values are computed anyway (not those of other sessions)."""
    others = []
    for key, ref in PENDING.copy().items():
        c = ref()
        if c is None or c.node is None:
            if PENDING.get(key) is ref:  # else another cell is there by now
                PENDING.pop(key, None)
        elif c is not outputs[0]:
            others.append(c)
    if others:
        here, there = session_here(), {*outputs, *apart}
        for c in others:
            node = c.node
            if node in at and c.owner is here and c not in there and waiting(c) and not isinstance(node.op, CHEAP):
                outputs.append(c)


def rewrite(targets: list[Cell], structure: compiler.Structure, settings: Settings) -> list[tuple[Cell, Node]]:
    """Give pending cells equal nodes that cost less. Gives the cells that have another node now, and the old ones.

    Cells of intermediate values follow, if their new nodes are still needed.
    """
    on_mesh = cluster_here(settings.blocks)[0] is not None
    new = compiler.rewritten([c.node for c in targets], structure, settings, on_mesh)  # type: ignore[misc]
    if new is None:
        return []
    cells = targets
    if len(PENDING) > len(targets):
        here = session_here()
        asked = set(targets)
        left = numbered([new[c.node] for c in targets])  # type: ignore[index]
        cells = [c for c in pending_cells() if c.node in new and c.owner is here and c not in asked]
        cells = [*targets, *(c for c in cells if new[c.node] in left and new[c.node].value is None)]  # type: ignore[index]
    found = [(c, c.node, new[c.node]) for c in cells if c.node is not None and new[c.node] is not c.node]
    for c, _, node in found:
        c.node = node
    return [(c, old) for c, old, _ in found]


def read_less(outputs: list[Cell]) -> list[tuple[Cell, Node]]:
    """Give cells nodes that read no more of files than they need. Gives those that have another now, and the old."""
    roots = [c.node for c in outputs if c.node is not None]
    new = slices.sliced_sources(roots)
    changed = [(c, old, n) for c, old, n in zip(outputs, roots, new, strict=True) if old is not n]
    for c, _, n in changed:
        c.node = n
    return [(c, old) for c, old, _ in changed]


def still_read(replaced: list[tuple[Cell, Node]]) -> list[tuple[Cell, Node]]:
    """Those whose old node other pending work refers to: it gets the value, too."""
    return [pair for pair in replaced if getrefcount(pair[1]) > 2]  # in the pair, and getrefcount's argument
