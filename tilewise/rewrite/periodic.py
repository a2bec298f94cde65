"""Shifted reads of arrays that are rolled. In: an elementwise operator on rolled arrays. Out: one on windows.

A rim of the array's other end goes around it, once for all shifts of one distance, along whichever axes; each rolled
array is then a window of that copy, which the pass reads in place. Not on meshes, where rims are halos.
"""

from __future__ import annotations

from tilewise.ir.node import Node, intern
from tilewise.ir.order import strides_of
from tilewise.ops.elementwise import Map
from tilewise.ops.periodic import MOVES, rim, rolled
from tilewise.ops.views import view
from tilewise.rewrite.rule import Rule

MOST_SHIFT = 16  # along an axis: farther shifts are rare, and would add to the copy
LONG = 32  # times the shift: an axis that has a rim though nothing is shifted along it, to share it with other shifts
LEAST_BYTES = 1 << 20  # of an array that is worth it


def _reads_join(node: Node) -> bool:
    return any(type(x.op) in MOVES for x in node.inputs)


def shifted_reads(node: Node) -> Node | None:
    """f(roll(x, 1, 0), roll(x, -1, 0)) => f(r[:-2], r[2:]) with r = x and a row of its other end on both sides."""
    inputs = [_window(x) or x for x in node.inputs]
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return None
    return intern(node.op, tuple(inputs), node.shape, node.dtype, node.order)


def _window(x: Node) -> Node | None:
    found = rolled(x) if x.known and x.order is None else None
    if found is None or x.nbytes < LEAST_BYTES:
        return None
    base, shifts = found
    if not shifts or any(abs(by) > min(MOST_SHIFT, base.dims[axis] // 4) for axis, by in shifts.items()):
        return None
    width = max(map(abs, shifts.values()))
    widths = tuple([width if axis in shifts or n >= LONG * width else 0 for axis, n in enumerate(base.dims)])
    rimmed = rim(base, widths)
    strides = strides_of(rimmed.dims, base.dtype.itemsize, None)
    offset = sum((w - shifts.get(axis, 0)) * strides[axis] for axis, w in enumerate(widths) if w)
    return view(rimmed, offset, base.dims, strides, base.dtype)


RULES = (Rule((Map,), _reads_join, shifted_reads),)
NAMES = tuple(rule.name for rule in RULES)
