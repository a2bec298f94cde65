"""Functions that look elements up, and short filters. In: NumPy's arguments. Out: Arrays, recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.api.dispatch import implements, public
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.interop.elsewhere import in_blocks
from tilewise.array.lengths.expected import different
from tilewise.array.session import on_workers
from tilewise.ir.node import Node
from tilewise.ops.order.lookup import lookup

INDEX = np.dtype(np.intp)
TAPS = 32  # of a filter: a longer one is NumPy's


def _table(x: Any) -> bool:
    """Whether something is a table of numbers."""
    return rec.numeric(x.dtype if type(x) is Array else np.asarray(x).dtype) and np.ndim(x) == 1


def _likely(elements: Node, table: Node | None = None) -> tuple[int, int]:
    """About how many different ones there are (0: nobody knows), which decides what workers exchange."""
    if not on_workers():
        return 0, 0
    return different(elements), 0 if table is None else different(table)


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Where elements belong in a sorted table."""
    if sorter is not None or side not in ("left", "right") or not _table(a):
        return NotImplemented
    elements, table = rec.as_node(v), rec.as_node(a)
    if elements.dtype != table.dtype or np.ndim(v) == 0:
        return NotImplemented  # NumPy makes them alike before it looks
    node = lookup("searchsorted", elements, [table], INDEX, (("side", side),), _likely(elements))
    return rec.record(node, fixed=not node.shape)


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Bins that elements are in."""
    if type(x) is not Array or type(bins) is Array or not _table(bins):
        return NotImplemented
    np.digitize(np.empty(0), bins, right)  # NumPy's complaint
    node = lookup("digitize", rec.as_node(x), [rec.as_node(np.asarray(bins))], INDEX, (("right", right),))
    return rec.record(node, fixed=not node.shape)


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Values between those at some places, along straight lines."""
    if type(x) is not Array or period is not None or not (_table(xp) and _table(fp)):
        return NotImplemented
    ends = tuple((name, None if v is None else v) for name, v in (("left", left), ("right", right)))
    if np.shape(xp) != np.shape(fp) or not np.size(xp) or any(type(v) not in (int, float, type(None)) for _, v in ends):
        return NotImplemented
    tables = [rec.as_node(t if type(t) is Array else np.asarray(t)) for t in (xp, fp)]
    if tables[1].dtype.kind == "c" or x.dtype.kind == "c":
        return NotImplemented
    elements = rec.as_node(x)
    node = lookup("interp", elements, tables, np.dtype(float), ends, _likely(elements))
    return rec.record(node, fixed=not node.shape)


@implements(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Any:
    """Which elements are among some others."""
    if type(element) is not Array or kind not in (None, "sort", "table"):
        return NotImplemented
    few: Any = test_elements if type(test_elements) is Array else np.asarray(test_elements)
    few = few.reshape(-1)
    if not rec.numeric(few.dtype) or not element.ndim:
        return NotImplemented
    options = (("invert", bool(invert)), ("kind", "sort" if kind is None else kind))
    elements, table = rec.as_node(element), rec.as_node(few)
    return rec.record(lookup("isin", elements, [table], np.dtype(bool), options, _likely(elements, table)))


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """A vector and a short filter: sums of shifted copies."""
    if not in_blocks(a):
        return rec.at_once(np.convolve, (a, v, mode), {})
    if type(a) is not Array or type(v) is Array or mode not in ("full", "same", "valid"):
        return NotImplemented
    taps = np.asarray(v)
    kinds = a.dtype.kind in "f" and taps.dtype.kind in "iuf" and np.isfinite(taps).all()
    n, m = a.size, taps.size
    if a.ndim != 1 or taps.ndim != 1 or not kinds or not 1 <= m <= TAPS or n < 2 * m:
        return NotImplemented
    dtype = np.result_type(a.dtype, taps.dtype)
    before = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    after = {"full": m - 1, "same": m - 1 - m // 2, "valid": 0}[mode]
    x: Any = public(np.pad)(a, (before, after)) if before or after else a
    length = n + before + after - m + 1
    total: Any = None
    for k, tap in enumerate(taps.astype(dtype)):
        part = x[m - 1 - k : m - 1 - k + length] * tap
        total = part if total is None else total + part
    return total
