"""Arrays for results. In: a node. Out: memory with its type and order, and margins for ghosts on a mesh."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tilewise.ir.node import Node
from tilewise.store import pool

MARGIN = 2  # rows kept free around a block of rows, at least: most stencils reach no further


class _Margins(weakref.ref[np.ndarray[Any, Any]]):
    """An array whose first and last rows are free for ghosts, and how many of them."""

    __slots__ = ("key", "rows")

    key: int
    rows: int


_margined: dict[int, _Margins] = {}  # by the id of the array


def _forget(gone: _Margins) -> None:
    if _margined.get(gone.key) is gone:  # else another array is there by now
        del _margined[gone.key]


def has_margins(x: np.ndarray[Any, Any]) -> bool:
    """Whether an array is a part of one that has rows to spare for ghosts."""
    return id(x.base) in _margined


def widened(x: np.ndarray[Any, Any], low: int, high: int) -> np.ndarray[Any, Any] | None:
    """x with rows before and after it from its own margins; None if it has none, or is only a part of what has."""
    if low == high == 0:
        return x
    base: Any = x.base
    found = _margined.get(id(base))
    if found is None or base.strides != x.strides:
        return None
    rows = found.rows
    first = (x.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // x.strides[0]
    whole = first == rows and base.shape == (x.shape[0] + 2 * rows, *x.shape[1:])
    if not whole or max(low, high) > rows:
        return None
    wide: np.ndarray[Any, Any] = base[first - low : first + x.shape[0] + high]
    return wide


def fresh(node: Node) -> np.ndarray[Any, Any]:
    """An uninitialised array with the node's type and order (on a mesh: with rows to spare for ghosts)."""
    margin = 0 if type(node) is Node else getattr(node, "margin", 0)
    if margin:
        rows, *rest = node.dims
        base = pool.empty((rows + 2 * margin, *rest), node.dtype, None)
        made = _margined[id(base)] = _Margins(base, _forget)
        made.key, made.rows = id(base), margin
        return base[margin:-margin]
    return pool.empty(node.dims, node.dtype, node.order)


def maker(node: Node) -> Callable[[], np.ndarray[Any, Any]]:
    """`fresh` for a node of which there are many arrays."""
    margin = 0 if type(node) is Node else getattr(node, "margin", 0)
    return partial(fresh, node) if margin else pool.maker(node.dims, node.dtype, node.order)


def walked(x: np.ndarray[Any, Any], along: tuple[int, ...], rank: int) -> np.ndarray[Any, Any]:
    """An operand of a contraction as the space sees it: axes in the order of the dims, new ones where it has none."""
    order = sorted(range(len(along)), key=lambda axis: along[axis])
    seen = x.transpose(order)
    return seen[tuple(slice(None) if d in along else None for d in range(rank))]
