"""ufunc.at, recorded. In: an Array, index arrays, values. Out: a pending value of its cell, or leave to NumPy.

Sums by key (`np.add.at(total, key, x)`) are the usual case: repeated indices count each time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.array import record as rec
from tilewise.array.arithmetic import loop_of
from tilewise.array.assign import store, value_shown
from tilewise.array.cell import LOCK
from tilewise.array.handle import Array, meta, node_of, window_of
from tilewise.array.indexing import check_bounds, ends_of, gather_shape, in_base, index_node
from tilewise.array.pending import register
from tilewise.array.schedule import policy, sites
from tilewise.ir.node import Node, intern
from tilewise.ir.scalar import UFUNCS
from tilewise.ops.bucket import below
from tilewise.ops.index import At


def add_at(f: np.ufunc, x: Array, indices: Any, value: Any) -> bool:
    """Record f.at(x, indices, value). False where NumPy must do it, or say what is wrong."""
    arrays: list[Array] = [x]
    rec.find_arrays((indices, value), arrays)
    if x._fixed or policy.small(arrays) or not all(rec.numeric(a.dtype) for a in arrays) or not meta(x).flags.writeable:
        return False
    if f.__name__ not in UFUNCS or f.nout != 1 or (value is None) != (f.nin == 1):
        return False
    try:
        policy.settle(x)
        nodes = _index_nodes(x, indices if type(indices) is tuple else (indices,))
        source = None if value is None else rec.as_node(value)
        kinds = (x.dtype,) if source is None else (x.dtype, source.dtype)
        fits = nodes is not None and _fits(x, nodes, source)
        if not fits or not np.can_cast(loop_of(f, kinds)[-1], x.dtype, "same_kind"):
            return False
    except Exception:
        return False
    assert nodes is not None
    with LOCK:
        op = At(f.__name__, tuple(("a", i) for i in range(len(nodes))), window_of(x))
        base = x._cell.read()
        given = () if source is None else (source,)
        shifted = in_base(x, op.key, nodes)
        if shifted is not None:
            op, nodes = replace(op, key=shifted[0], window=None), shifted[1]
        v = value_shown(x) if shifted is None else None
        if v is not None:
            store(x, intern(replace(op, window=None), (v, *given, *nodes), v.shape, v.dtype, v.order))
            return True
        new = intern(op, (base, *given, *nodes), base.shape, base.dtype, base.order)
        sites.note_site(new)
        x._cell.record(new)
        register(x._cell)
    return True


def _index_nodes(x: Array, parts: tuple[Any, ...]) -> list[Node] | None:
    """One node per index array; None if the key has anything else (NumPy does it), checked where values are known."""
    shown = meta(x)
    nodes: list[Node] = []
    for axis, k in enumerate(parts):
        if not isinstance(k, Array | np.ndarray | list) or axis >= shown.ndim:
            return None
        limit = below(node_of(k)) if type(k) is Array else None
        if limit is None or limit > shown.shape[axis]:
            # Its bounds are looked at now: a write that fails must leave x as it is.
            check_bounds(ends_of(k) if type(k) is Array else np.asarray(rec.unwrap(k)), shown, axis)
        node = index_node(k)
        if node is None or not node.known or node.dtype.kind not in "iu":
            return None
        nodes.append(node)
    return nodes


def _fits(x: Array, nodes: list[Node], source: Node | None) -> bool:
    if source is None or source.shape == ():
        return True
    probe = [np.zeros((1,) * n.ndim, np.intp) for n in nodes]
    shape = gather_shape(meta(x).shape, probe, [n.shape for n in nodes])
    return source.known and np.broadcast_shapes(source.shape, shape) == shape
