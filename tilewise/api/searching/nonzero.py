"""Where elements are not zero. In: NumPy's arguments. Out: positions.

Where workers hold the elements, positions are selected from a count of all of them by a mask (ops/index/compress.py):
how many there are is not asked. Without workers these are NumPy's own functions.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tilewise.api.dispatch import implements
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.interop.elsewhere import in_blocks
from tilewise.ir.node import Node
from tilewise.ops.const import const
from tilewise.ops.create import arange
from tilewise.ops.elementwise import apply
from tilewise.ops.index import compress

INDEX, BOOL = np.dtype(np.intp), np.dtype(bool)


def _positions(a: Array) -> Node:
    """Positions in the array as one line."""
    flat = rec.as_node(a.reshape(-1))
    d = flat.dtype
    mask = flat if d == BOOL else apply("not_equal", (flat, const(d.type(0))), (d, d, BOOL))
    return compress(arange(0, 1, a.size, INDEX), mask)


def _unravelled(a: Array, columns: bool) -> Any:
    """The indices that positions stand for: a column for every axis, or a row."""
    inner = np.array([prod(a.shape[k + 1 :]) for k in range(a.ndim)], INDEX)
    dims, flat = np.array(a.shape, INDEX), rec.record(_positions(a))
    line: Any = flat
    return line[:, None] // inner % dims if columns else line // inner[:, None] % dims[:, None]


@implements(np.nonzero)
def nonzero(a: Any) -> Any:
    """The indices of elements that are not zero, axis by axis."""
    if not in_blocks(a):
        return rec.at_once(np.nonzero, (a,), {})
    if type(a) is not Array or not a.ndim or not a.size:
        return NotImplemented
    if a.ndim == 1:
        return (rec.record(_positions(a)),)
    found = _unravelled(a, columns=True)  # of which NumPy, too, gives views
    return tuple(found[:, k] for k in range(a.ndim))


@implements(np.flatnonzero)
def flatnonzero(a: Any) -> Any:
    """Positions in the array as one line."""
    if not in_blocks(a):
        return rec.at_once(np.flatnonzero, (a,), {})
    return rec.record(_positions(a)) if type(a) is Array and a.size else NotImplemented


@implements(np.argwhere)
def argwhere(a: Any) -> Any:
    """The same, element by element."""
    if not in_blocks(a):
        return rec.at_once(np.argwhere, (a,), {})
    if type(a) is not Array or not a.ndim or not a.size:
        return NotImplemented
    return _unravelled(a, columns=False).T  # in this order in memory, as NumPy's
