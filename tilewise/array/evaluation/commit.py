"""Cells take the values of an evaluation. In: cells, values by position. Out: the cells, with buffers of their own."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.array.cell import ND, Cell, Outside
from tilewise.array.pending import PENDING
from tilewise.backend import threads
from tilewise.ir.node import Node, become_leaf
from tilewise.ir.order import strides_of
from tilewise.ops.const import Const
from tilewise.store import pool


def commit_one(c: Cell, at: dict[Node, int], values: list[Any]) -> None:
    """The only cell takes its value."""
    node = c.node
    assert node is not None
    value = values[at[node]]
    if type(value) is np.ndarray and value.base is not None:
        values.clear()  # what a view shows may become its own, if nobody else has it
    c.take(conform(value, node, node.value is None and type(node.op) is not Const))
    PENDING.pop(id(c), None)


def commit(outputs: Sequence[Cell], at: dict[Node, int], values: list[Any], shared: Sequence[int] = ()) -> None:
    """Cells take their values, and so do nodes that other pending work refers to."""
    taken: set[int] = set()
    left = set(shared)
    kept: set[int] | None = None
    for c in outputs:
        node = c.node
        assert node is not None
        i = at[node]
        value = values[i]
        if kept is None and type(value) is np.ndarray and value.base is not None:
            # What a view shows may become its own, if nobody else has it.
            kept = {*shared, *[at[o.node] for o in outputs if o.node is not None]}
            values[:] = [v if j in kept else None for j, v in enumerate(values)]
        nd = conform(value, node, node.value is None and id(value) not in taken and type(node.op) is not Const)
        if i in left:
            left.remove(i)
            outside = Outside()
            outside.holder = weakref.ref(c)
            become_leaf(node, nd, outside)
            c.take(nd, node, outside)
        else:
            c.take(nd)
        taken.add(id(value))
        PENDING.pop(id(c), None)
    if left:
        for n, i in at.items():
            if i in left:
                become_leaf(n, conform(values[i], n, id(values[i]) not in taken))
                taken.add(id(values[i]))


def conform(value: Any, node: Node, private: bool) -> ND:
    """The value as a buffer of its own, laid out as the node says."""
    nd = value if type(value) is np.ndarray else np.asarray(value)
    if private and node.order is None and nd.base is None and nd.flags.carray:
        return nd
    want = strides_of(nd.shape, nd.dtype.itemsize, node.order)
    same = nd.strides == want or nd.size == 0
    same = same or all(s == w or d == 1 for s, w, d in zip(nd.strides, want, nd.shape, strict=True))
    if private and same and nd.flags.writeable:
        if not isinstance(nd.base, np.ndarray):
            return nd
        found = pool.taken_over(nd)
        if found is not None:
            return found
    out = pool.empty(nd.shape, nd.dtype, node.order)
    threads.parallel_copy(out, nd)
    return out
