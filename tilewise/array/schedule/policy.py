"""When work runs (docs/scheduling.md). In: operands. Out: whether an operation runs now, or what is evaluated first.

`small` decides by the bytes an operation touches, `flush_loop` and `settle` where a loop is flushed, `close` ends what
was promoted. Every operation asks here before it reads a node of its operands: an evaluation may give them others.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array.cell import ND, Cell
from tilewise.array.handle import Array, meta
from tilewise.array.pending import pending_cells, waiting
from tilewise.array.schedule import loop_flush
from tilewise.array.schedule.loop_flush import PROMOTED, Place, bits
from tilewise.array.schedule.promote import stays
from tilewise.array.schedule.sites import Spot, one_call, spot
from tilewise.array.session import cluster_here
from tilewise.config import current
from tilewise.ir.node import Node

LONGEST_TRACE = 4096  # instructions of a traced function with loops: a second of tracing and compiling


def repeats(nodes: Sequence[Node]) -> bool:
    """Whether to flush before an operation on these nodes is recorded here (see `flush`)."""
    trail = 0
    for n in nodes:
        trail |= n.trail
    return trail != 0 and _due(trail, spot(2).place, nodes)


def _due(trail: int, place: Place, nodes: Sequence[Node]) -> bool:
    """Whether a loop repeats at a place that a trail has been at, and is to be flushed there."""
    bit = bits.get(place)
    if bit is None or not trail & bit:
        return False
    if not current().flush:
        recorded = loop_flush.pending.recorded - loop_flush.pending.traced
        if recorded > LONGEST_TRACE and forcing.tracing.get() is not None:
            raise forcing.TraceTooLong
        return False
    return not one_call(place) and loop_flush.due(place, trail, nodes)


def flush(later: Collection[Cell] = ()) -> None:
    """Evaluate what is pending (but what is for `later`), before an operation is recorded again."""
    forcing.flush(later)
    loop_flush.flushed()


def settle(x: Array, value: Any = None) -> bool:
    """Before `value` is written to x: flush if this place already wrote to x. Call before reading any operand's node.

    The value itself stays pending, so that it is computed in the pass that writes it, unless it depends on x.
    True if x is known since: much may be, and little enough to be done at once.
    """
    node = x._cell.node
    if node is None or not node.trail:
        return False
    at = spot(1)
    again = _due(node.trail, at.place, (node,))
    keep = again and type(value) is Array and value._cell.node is not None and not _hangs(value._cell, node)
    del node  # what is held here cannot be updated in place
    if not again:
        return False
    flush((value._cell,) if keep else ())
    return not waiting(x._cell)


def _hangs(cell: Cell, on: Node) -> bool:
    """Whether a pending value needs a node, other than through arrays that a flush makes known."""
    start = cell.read()
    known_then = {c.node for c in pending_cells() if c is not cell}
    stack, met = [start], {start}
    while stack:
        n = stack.pop()
        if n is on:
            return True
        if n.value is None and n not in known_then:
            stack += [i for i in n.inputs if i not in met]
            met.update(n.inputs)
    return False


def flush_loop(args: Sequence[Any], at: Spot | None = None, exact: bool = False, rolls: bool = False) -> bool:
    """Flush if the program repeats here (a loop repeats). True if it did: decide again what to do at once.

    So it is if operands were promoted (promote.py), unless the operator is an `exact` one and may stay recorded. One
    that `rolls` is a shifted read of what is known by then, but a copy of its own of what is pending.
    """
    trail = 0
    node = None
    for a in args:
        if type(a) is Array:
            node = a._cell.node
            if node is not None:
                trail |= node.trail
    del node  # what is held here cannot be updated in place
    if not trail:
        return False
    if trail & PROMOTED and not (exact and stays(args)) and close(args):
        return True
    place = (at or spot(1)).place
    bit = bits.get(place)
    if bit is None or not trail & bit:
        return False
    given = [a for a in args if type(a) is Array and a._cell.node is not None]
    whole = not any(_window(a) for a in given)
    if rolls and any(not loop_flush.rolled_read(a._cell.read()) for a in given):
        trail |= loop_flush.OTHER
    if whole and loop_flush.within(place, trail):
        return False
    if not whole and any(not _shifted(a) for a in given):
        trail |= loop_flush.OTHER
    if not _due(trail, place, [a._cell.read() for a in given]):
        return False
    flush([a._cell for a in given if not a._cell.read().trail & bit])
    return not any(waiting(a._cell) for a in args if type(a) is Array)  # what cannot be evaluated stays


def close(args: Iterable[Any]) -> bool:
    """Evaluate operands that were promoted. True if there were some, and all are known now."""
    cells = [a._cell for a in args if type(a) is Array and (n := a._cell.node) is not None and n.trail & PROMOTED]
    if cells:
        forcing.evaluate(cells)
    return bool(cells) and not any(waiting(c) for c in cells)


def _window(x: Array) -> bool:
    """Whether x is a window onto what is not computed yet."""
    nd, node = x._nd, x._cell.node
    return nd is not None and node is not None and type(nd.base) is np.ndarray and not _part(nd, node)


def _part(nd: ND, node: Node) -> bool:
    """Whether a view of what is pending is a part of its complex numbers."""
    return node.dtype.kind == "c" and nd.dtype.kind == "f" and nd.shape == node.shape


def _shifted(x: Array) -> bool:
    """Whether x is all of what is not computed yet, or a part of it element by element."""
    nd, node = x._nd, x._cell.read()
    if nd is None or type(nd.base) is not np.ndarray or _part(nd, node):
        return True
    return loop_flush.shifted(nd.strides, nd.dtype, node)


def known(x: Array) -> ND | None:
    """The ndarray of a known array, or None."""
    cell = x._cell
    if cell.node is not None:
        return None
    nd = x._nd
    return nd if nd is not None and x._gen == cell.gen else meta(x)


def eager_limit() -> int:
    """Bytes below which work on known data is done at once."""
    settings = current()
    return sys.maxsize if settings.engine == "numpy" else settings.eager_bytes


def small(arrays: Sequence[Array], extra: int = 0) -> bool:
    """Whether the arrays are all known and each has few bytes (docs/design/0003-at-once.md)."""
    touched = extra
    for x in arrays:
        node = x._cell.node
        if node is not None and node.trail & PROMOTED:
            del node
            close((x,))
        nd = known(x)
        if nd is None:
            return False
        touched = max(touched, nd.nbytes)
    return touched < eager_limit()


def slight(a: Any, b: Any) -> bool:
    """Whether a product of known ndarrays is a matrix times a vector, here, with a small result.

    Such a product is one call of BLAS, recorded or not; recorded, it would make all that follows pending.
    """
    if type(a) is not np.ndarray or type(b) is not np.ndarray or a.ndim + b.ndim not in (2, 3) or 0 in (a.ndim, b.ndim):
        return False
    settings = current()
    inner = a.shape[0] if a.ndim == 1 else b.shape[0]
    if settings.engine is not None or max(a.nbytes, b.nbytes) >= settings.eager_bytes * max(inner, 1):
        return False
    return cluster_here(settings.blocks)[0] is None
