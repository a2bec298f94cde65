"""Which graphs share a plan. In: wanted nodes. Out: the graph in order, and its structure, the key of plans.

The key of a plan's stages leaves out everything that only changes numbers: sizes, offsets, scalar values, which
buffers. What decides how a group of passes is tiled (tall products, classes of slices, the longest axis) is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, numbered
from tilewise.ops.bucket import Bucket
from tilewise.ops.const import Const
from tilewise.ops.contract import Contract
from tilewise.ops.elementwise import Map
from tilewise.ops.index import Update
from tilewise.plan.stages import Stages
from tilewise.plan.tile import tall
from tilewise.rewrite import may_fire
from tilewise.stage.tiles import slice_class
from tilewise.store.base import Source
from tilewise.tuning import tuned


class Structure:
    """What graphs share that are equal but for sizes, offsets and values: their plans, by what is wanted and how.

    `rewritable` says that rules may fire on them; whether they do is up to each graph. `stored` says that some of their
    leaves are sources, not arrays here.
    """

    __slots__ = ("plans", "rewritable", "stored")

    def __init__(self, rewritable: bool, stored: bool) -> None:
        self.plans: dict[Any, Stages] = {}
        self.rewritable = rewritable
        self.stored = stored


# A graph as one evaluation sees it: its nodes, inputs first, with their positions; the values of leaves and constants
# (None for all others); its structure.
Graph = tuple[dict[Node, int], list[Any], Structure]

_structures: dict[Any, Structure] = {}  # by the key of a whole graph
_placed: dict[Any, Structure] = {}  # by that of a placed graph's block


def graph_of(roots: Sequence[Node]) -> Graph:
    """What must be known to compute some nodes, as `numbered` has it, from one walk: evaluations begin with it."""
    at: dict[Node, int] = {}
    values: list[Any] = []
    parts: list[Any] = []
    try:
        for root in roots:
            if root not in at:
                _add(root, at, values, parts)
    except RecursionError:  # a deep graph: inputs first, so that none looks for others
        at, values, parts = {}, [], []
        for n in numbered(roots):
            _add(n, at, values, parts)
    key = tuple(parts)
    found = _structures.get(key)
    if found is None:
        found = Structure(may_fire(at), any(isinstance(value, Source) for value in values))
        remember(_structures, key, found)
    return at, values, found


def _add(node: Node, at: dict[Node, int], values: list[Any], parts: list[Any]) -> None:
    """Add what a node depends on, then the node.

    `parts` is the structure as a stack machine would build the graph: a node's inputs, then what it is. A number is a
    node that is there already; None says that an operand has another shape than the result.
    """
    value = node.value
    if value is None:
        op = node.op
        if type(op) is Map:  # as many inputs as the function has, and the rank of the largest
            shape = node.shape
            for x in node.inputs:
                if x in at:
                    parts.append(at[x])
                elif x.inputs:
                    _add(x, at, values, parts)
                elif type(x.op) is Const:
                    parts.append(x.op.signature)
                    at[x] = len(at)
                    values.append(x.op.value)
                    if shape:
                        parts.append(None)
                    continue
                else:
                    _add(x, at, values, parts)
                if x.shape is not shape and x.shape != shape:
                    parts.append(None)
            parts.append(op)
        elif type(op) is Const:
            parts.append(op.signature)
            value = op.value
        else:
            for x in node.inputs:
                if x in at:
                    parts.append(at[x])
                else:
                    _add(x, at, values, parts)
            parts += _signature(node, op)
    else:
        rank = len(node.shape)
        if type(value) is not np.ndarray and isinstance(value, Source):
            parts.append(Source)
        parts += (node.dtype, rank)
        if rank > 1:
            sizes = value.shape  # a length in the node's shape may be named by a mask
            parts.append(sizes.index(max(sizes)))  # tiles are cut along the longest axis
    at[node] = len(at)
    values.append(value)


def _signature(node: Node, op: Op) -> tuple[Any, ...]:
    """What of a node decides a plan, beside its inputs."""
    if type(op) is Update:
        new = node.inputs[1]
        fits = new.shape == op.window.shape and new.dtype == node.dtype
        return Update, fits, len(op.window.shape), slice_class(node)
    if type(op) is Contract:
        return op.signature, node.dtype, tall(node)
    if type(op) is Bucket:
        values, keys = node.inputs[:2]
        return op.signature, len(node.inputs), len(node.shape), node.dtype, values.shape == keys.shape
    return op.signature, len(node.inputs), len(node.shape), node.dtype


def placed_structure(nodes: Sequence[Any], classes: Iterable[int]) -> Structure:
    """The structure of a placed graph as a block sees it; `classes` are those of layouts."""
    at: dict[Any, int] = {}
    parts: list[Any] = []
    for n in nodes:
        if n.value is not None:
            longest = n.dims.index(max(n.dims)) if len(n.dims) > 1 else 0
            parts.append((n.dtype, len(n.dims), longest))
        else:
            op = n.op
            said = (op,) if type(op) is Map else (op.signature,) if type(op) is Const else _signature(n, op)
            parts.append((*said, *[(at[x], x.dims == n.dims) for x in n.inputs]))
        at[n] = len(at)
    key = (tuple(parts), tuple(classes))
    found = _placed.get(key)
    if found is None:
        found = Structure(False, False)
        remember(_placed, key, found)
    return found


def forget_structures() -> None:
    """Make all stages anew."""
    _structures.clear()
    _placed.clear()


def remember(plans: dict[Any, Any], key: Any, plan: Any) -> None:
    """Keep a plan; all are forgotten when there are too many."""
    if len(plans) >= tuned().plans_kept:
        plans.clear()
    plans[key] = plan
