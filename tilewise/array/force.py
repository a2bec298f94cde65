"""Forcing: pending cells become known. In: cells. Out: the same cells, with buffers.

Nothing changes until a whole evaluation has succeeded, except that values a plan has overwritten in place are noted on
their nodes: whatever happens, every array keeps its value.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewise import compiler
from tilewise.array.cell import LOCK, ND, Cell
from tilewise.array.handle import Array, meta, set_resolver
from tilewise.config import Settings, current
from tilewise.ir.node import Leaf, Length, Node, walk
from tilewise.ir.order import strides_of
from tilewise.ops.const import Const
from tilewise.ops.create import Arange, Full
from tilewise.ops.views import Window
from tilewise.store import pool

PENDING: dict[int, weakref.ref[Cell]] = {}  # every pending cell, by id

_CHEAP = (Full, Arange, Window)  # not kept when they are on the way: computing them again costs no more than storing


def register(cell: Cell) -> None:
    """Note a cell that became pending."""
    key = id(cell)

    def forget(_: Any, key: int = key) -> None:
        PENDING.pop(key, None)

    PENDING[key] = weakref.ref(cell, forget)


def pending_cells() -> list[Cell]:
    """All cells that are pending now."""
    found = [ref() for ref in list(PENDING.values())]
    return [c for c in found if c is not None and c.node is not None]


def evaluate(cells: Iterable[Cell]) -> None:
    """Make cells known, all together; shared work is done once."""
    with LOCK:
        targets = [c for c in cells if c.node is not None]
        if not targets:
            return
        settings = current()
        nodes = walk([c.node for c in targets if c.node is not None])
        at = {n: i for i, n in enumerate(nodes)}
        chosen: dict[int, Cell] = {id(c): c for c in targets}
        if len(PENDING) > len(targets):
            for c in pending_cells():
                if c.node in at and not isinstance(c.node.op, _CHEAP):
                    chosen[id(c)] = c
        outputs = list(chosen.values())
        values = _run(nodes, at, outputs, settings)
        _commit(outputs, at, values)


def _run(nodes: list[Node], at: dict[Node, int], outputs: Sequence[Cell], settings: Settings) -> list[Any]:
    wanted = sorted({at[c.node] for c in outputs if c.node is not None})
    values: list[Any] = [n.value if n.value is not None else n.op.value if type(n.op) is Const else None for n in nodes]
    if settings.engine == "numpy" or settings.compare:
        return reference(nodes, values)
    runner = compiler.prepare(nodes, wanted, settings)
    if runner.bases:
        _loosen(nodes, runner.bases, outputs)
    try:
        runner.run(nodes, values)
    finally:
        for b in runner.bases:
            op = nodes[b].op
            if isinstance(op, Leaf):
                op.loose = False
    return values


def _loosen(nodes: Sequence[Node], bases: Sequence[int], outputs: Sequence[Cell]) -> None:
    """Mark the leaves that nothing but this evaluation knows: their buffers may be overwritten.

    A leaf is known elsewhere if anything but this evaluation refers to it, or to a node here that hangs on it.
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
        exported = op.exports and any(e() is not None for e in op.exports)
        op.loose = not exported and all(spare[n] <= 0 for n in hanging)


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
    seen = [sys.getrefcount(nodes[i]) for i in range(len(nodes))]
    return {n: seen[i] - ours[i] for n, i in at.items()}


# References that an evaluation itself holds: `nodes`, the keys of `at` here and in evaluate, getrefcount's argument.
# tests/test_inplace.py fails if this is too small (nothing in place) or too large (wrong values).
_OWN_REFERENCES = 4


def reference(nodes: Sequence[Node], values: list[Any]) -> list[Any]:
    """Every node by its NumPy meaning, one after another."""
    at = {n: i for i, n in enumerate(nodes)}
    for i, n in enumerate(nodes):
        if values[i] is None:
            with np.errstate(all="ignore"):
                values[i] = np.asarray(n.op.numpy(*[values[at[x]] for x in n.inputs]))
            if n.op.name == "compress" and isinstance(n.shape[0], Length):
                n.shape[0].value = values[i].shape[0]
    return values


def _commit(outputs: Sequence[Cell], at: dict[Node, int], values: list[Any]) -> None:
    taken: set[int] = set()
    for c in outputs:
        assert c.node is not None
        i = at[c.node]
        value = values[i]
        private = c.node.value is None and id(value) not in taken and type(c.node.op) is not Const
        c.become(conform(value, c.node, private))
        taken.add(id(value))
        PENDING.pop(id(c), None)


def conform(value: Any, node: Node, private: bool) -> ND:
    """The value as a buffer of its own, laid out as the node says."""
    nd = np.asarray(value)
    want = strides_of(nd.shape, nd.dtype.itemsize, node.order)
    same = nd.strides == want or nd.size == 0
    same = same or all(s == w or d == 1 for s, w, d in zip(nd.strides, want, nd.shape, strict=True))
    if private and same and not isinstance(nd.base, np.ndarray) and nd.flags.writeable:
        return nd
    out = pool.empty(nd.shape, nd.dtype, node.order)
    out[...] = nd
    return out


def force(x: Array) -> ND:
    """The ndarray that shows x's memory; computes it if it is pending."""
    if x._cell.node is not None:
        evaluate([x._cell])
    return meta(x)


def flush() -> None:
    """Evaluate everything that is pending and still has a handle."""
    evaluate(pending_cells())


def _resolve(x: Array) -> None:
    evaluate([x._cell])


set_resolver(_resolve)
