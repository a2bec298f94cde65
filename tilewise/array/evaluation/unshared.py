"""Which leaves an evaluation may overwrite. In: the nodes of an evaluation, what is asked for. Out: leaves, marked."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from tilewise.array.cell import Cell
from tilewise.ir.node import Leaf, Node


def mark_unshared(nodes: Sequence[Node], bases: Sequence[int], outputs: Sequence[Cell]) -> None:
    """Mark the leaves that nothing but this evaluation knows: their buffers may be overwritten.

    A leaf is known elsewhere if anything but this evaluation refers to it, or to a node here that depends on it.
    """
    leaves = [b for b in bases if isinstance(nodes[b].op, Leaf) and isinstance(nodes[b].value, np.ndarray)]
    if not leaves:
        return
    spare = _spare_references(nodes, outputs)
    for b in leaves:
        op = nodes[b].op
        assert isinstance(op, Leaf)
        hanging = {nodes[b]}
        for n in nodes:
            if n.value is None and any(x in hanging for x in n.inputs):
                hanging.add(n)
        exports: Any = op.exports
        exported = exports is not None and (exports.held(nodes[b].value) or any(e() is not None for e in exports))
        asked = any(c.node is nodes[b] for c in outputs)
        op.unshared = not exported and not asked and all(spare[n] <= 0 for n in hanging)


def _spare_references(nodes: Sequence[Node], outputs: Sequence[Cell]) -> dict[Node, int]:
    """References to each node beyond those of this evaluation: other graphs, other threads at work."""
    ours = [_OWN_REFERENCES] * len(nodes)
    at = {n: i for i, n in enumerate(nodes)}
    for n in nodes:
        for x in n.inputs if n.value is None else ():
            ours[at[x]] += 1
    for c in outputs:
        if c.node is not None:
            ours[at[c.node]] += 1
    n = x = nodes[0]  # the loops' last values must not count
    del n, x
    seen = [getrefcount(nodes[i]) for i in range(len(nodes))]
    return {n: seen[i] - ours[i] for n, i in at.items()}


# References that an evaluation itself holds: `nodes`, the keys of `at` here and in evaluate, getrefcount's argument.
# tests/test_inplace.py fails if this is too small (nothing in place) or too large (wrong values).
_OWN_REFERENCES = 4
