"""Rolled arrays as operators read them. In: the node of an operand. Out: the window that a pass will read in its place.

What `rewrite/periodic.py` would make of a recorded graph is recorded here at once, where the array that was rolled is
known: a step of a program on a torus has a third of the nodes, most of which nobody would have looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewise.array import force as forcing
from tilewise.array.session import on_workers
from tilewise.config import current
from tilewise.ir.node import Node
from tilewise.later import later
from tilewise.ops.periodic import MOVES

if TYPE_CHECKING:
    from tilewise.rewrite import periodic
else:
    periodic = later("tilewise.rewrite.periodic")


def read_shifted(x: Node) -> Node:
    """A rolled array as a window; any other node as it is."""
    if type(x.op) not in MOVES or x.value is not None or forcing.tracing.get() is not None or on_workers():
        return x
    settings = current()
    plain = settings.engine is not None or settings.compare
    if plain or not settings.rewrite or not settings.without.isdisjoint(periodic.NAMES):
        return x
    made = periodic.window_of(x)
    if made is None or made.inputs[0].inputs[0].value is None:  # of what is pending: when that is rewritten
        return x
    made.site = x.site
    made.trail |= x.trail
    return made
