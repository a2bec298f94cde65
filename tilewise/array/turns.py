"""Loops: when what is pending is evaluated. In: nodes, and where they were recorded. Out: trails, and when to flush.

A node's `trail` is a bit set: the places its pending ancestors were recorded from, and whether all of them are
elementwise, or shifted parts of what is. A loop of such operations alone goes on for several turns, until the kernel
would become too long; it is then flushed at always the same place of its body, its *head*
(docs/design/0002-passes.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from tilewise import compiler
from tilewise.ir.node import Node, numbered
from tilewise.ir.order import strides_of
from tilewise.ops.create import Arange, Full
from tilewise.ops.join import Copy
from tilewise.ops.views import Window

Place = tuple[int, int]  # a code object's id (hashing code is slow) and the instruction in it

OTHER = 1  # in a trail: something on the way is not elementwise
SEEN = 2  # in a trail: looked at, although nobody recorded it by itself (casts, views, parts of a function)
FIRST = 2  # bits that are no places
FREE = (Window, Full, Arange, Copy)  # of known values, these do not end an elementwise loop

LONGEST = 64  # instructions of a loop's kernel: beyond, registers spill and compiling takes long (collatz, julia)
HELD_BYTES = 32 << 20  # what a loop may keep alive that would be gone if each turn were evaluated
WALK_BYTES = HELD_BYTES // LONGEST  # arrays below cannot become so much
TRIES, TRIES_EACH = (
    4,
    8,
)  # flushes at a head that may need a new plan, and one in so many; more: it is flushed each turn


class Head:
    """A place at which a loop is flushed."""

    __slots__ = ("flushes", "held", "passed", "planned", "restless")

    def __init__(self) -> None:
        self.passed = 0  # what had been recorded when the loop came by
        self.held = 0  # bytes that only pending work kept alive in its first turn
        self.flushes = 0
        self.planned = 0  # flushes that needed a new plan
        self.restless = False  # what is flushed here is seldom what was flushed before (a short loop in another)


class Pending:
    """What has been recorded."""

    __slots__ = ("began", "heads", "recorded")

    def __init__(self) -> None:
        self.recorded = 0  # elementwise instructions, ever
        self.began = 0  # the same at the last flush
        self.heads = 0  # bits of places that are heads


sites: dict[Place, int] = {}  # places of pending operations -> bit
pending = Pending()
_heads: dict[Place, Head] = {}


def bit_of(place: Place) -> int:
    """The bit of a place, a new one if nothing pending was recorded there."""
    bit = sites.get(place)
    if bit is None:
        bit = sites[place] = 1 << (len(sites) + FIRST)
        if place in _heads:
            pending.heads |= bit
    return bit


def nothing_pending() -> None:
    """Start over: no node that matters has a trail."""
    sites.clear()
    pending.heads = 0
    pending.began = pending.recorded


def forget_places() -> None:
    """Places mean something else from now on."""
    nothing_pending()
    _heads.clear()


def behind(node: Node) -> int:
    """The trail of a node that nobody recorded by itself."""
    stack = [node]
    while stack:
        n = stack[-1]
        below = [i for i in n.inputs if not i.trail and i.value is None and i.inputs]
        if below:
            stack += below
            continue
        stack.pop()
        trail = 0
        for i in n.inputs:
            trail |= i.trail
        n.trail = SEEN | trail | kind(n, trail)
    return node.trail


def kind(node: Node, trail: int) -> int:
    """Count an instruction; OTHER if a node is none. `trail` is that of its inputs."""
    if node.op.weight:
        pending.recorded += node.op.weight
        return 0
    op = node.op
    if type(op) in FREE and not trail & ~SEEN:
        return 0
    return 0 if type(op) is Window and shifted(op.strides, op.dtype, node.inputs[0]) else OTHER


def shifted(strides: Sequence[int], dtype: np.dtype[Any], base: Node) -> bool:
    """Whether a window is a part of a value, element by element: passes on both sides of it may share tiles."""
    if dtype != base.dtype or not base.known:
        return False
    own = strides_of(base.dims, dtype.itemsize, base.order)
    return all(s in own for s in strides)


def due(place: Place, trail: int, nodes: Sequence[Node]) -> bool:
    """Whether to flush before a place that is in the trail of the operands `nodes` is recorded again."""
    if trail & OTHER:
        return True
    head = _heads.get(place)
    if head is None:
        if trail & pending.heads:
            return pending.recorded - pending.began > 2 * LONGEST  # the head may not be on the way any more
        head = _heads[place] = Head()
        pending.heads |= sites.get(place, 0)  # another thread may start over
    first = head.passed <= pending.began
    now = pending.recorded
    if head.passed == now and not first:
        return False  # as a moment ago
    turn = now - (pending.began if first else head.passed)
    head.passed = now
    if now - pending.began + turn > LONGEST or head.restless:
        return True
    if max((n.nbytes for n in nodes), default=0) < WALK_BYTES:
        return False
    held = only_here(nodes)
    if first:
        head.held = held
    return held - head.held > HELD_BYTES


def only_here(nodes: Sequence[Node]) -> int:
    """Bytes of known values that nothing but pending nodes keeps alive."""
    total = 0
    for n in numbered(nodes):
        if type(n.value) is np.ndarray and getrefcount(n.value) <= _ALONE:
            total += n.value.nbytes
    return total


_ALONE = 2  # references to such a value: the node's, and getrefcount's argument


def flushed(place: Place, planned: int) -> None:
    """Note a flush at a place, before which `planned` plans had been made."""
    pending.began = pending.recorded
    head = _heads.get(place)
    if head is not None:
        head.flushes += 1
        head.planned += compiler.planned_count > planned
        head.restless = head.restless or head.planned > TRIES + head.flushes // TRIES_EACH
