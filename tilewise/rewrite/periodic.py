"""Shifted reads of arrays that are rolled. In: an elementwise operator on rolled arrays. Out: one on windows.

A rim of the array's other end goes around it, once for all shifts of one distance, along whichever axes; each rolled
array is then a window of that copy, which the pass reads in place. Not on meshes, where rims are halos.
"""

from __future__ import annotations

from functools import lru_cache

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
    inputs = [window_of(x) or x for x in node.inputs]
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return None
    return intern(node.op, tuple(inputs), node.shape, node.dtype, node.order)


def window_of(x: Node) -> Node | None:
    """A rolled array as a window of what was rolled, with a rim; None where it is not one, or not worth it."""
    if x.order is not None or type(x.op) not in MOVES or not x.known or x.nbytes < LEAST_BYTES:
        return None
    found = rolled(x)
    if found is None:
        return None
    base, shifts = found
    place = _place(base.dims, base.dtype.itemsize, tuple(shifts.items()))
    if place is None:
        return None
    widths, offset, strides = place
    return view(rim(base, widths), offset, base.dims, strides, base.dtype)


@lru_cache(maxsize=256)
def _place(
    dims: tuple[int, ...], itemsize: int, shifts: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, ...], int, tuple[int, ...]] | None:
    """How wide the rim is, and where a rolled array begins in the copy with it, and its strides there."""
    if not shifts or any(abs(by) > min(MOST_SHIFT, dims[axis] // 4) for axis, by in shifts):
        return None
    width, by = max(abs(by) for _, by in shifts), dict(shifts)
    widths = tuple([width if axis in by or n >= LONG * width else 0 for axis, n in enumerate(dims)])
    strides = strides_of(tuple([n + 2 * w for n, w in zip(dims, widths, strict=True)]), itemsize, None)
    return widths, sum((w - by.get(axis, 0)) * strides[axis] for axis, w in enumerate(widths) if w), strides


RULES = (Rule((Map,), _reads_join, shifted_reads),)
NAMES = tuple(rule.name for rule in RULES)
