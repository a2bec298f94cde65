"""Loops: when what is pending is evaluated. In: nodes, and where they were recorded. Out: trails, and when to flush.

A node's `trail` is a bit set: the places its pending ancestors were recorded from, and whether all of them are
elementwise, or shifted parts of what is. A loop of such operations alone goes on for several turns, until the kernel
would become too long; it is then flushed at always the same place of its body, its *head*
(docs/design/0002-passes.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from tilewise import compiler
from tilewise.array.pending import pending_cells
from tilewise.array.session import cluster_here
from tilewise.config import current
from tilewise.ir.node import Node, numbered
from tilewise.ir.order import strides_of
from tilewise.ops.create import Arange, Full
from tilewise.ops.index import Update
from tilewise.ops.join import Copy
from tilewise.ops.views import Window
from tilewise.plan.roll import repeats

Place = tuple[int, int]  # a code object's id (hashing code is slow) and the instruction in it

OTHER = 1  # in a trail: something on the way is not elementwise
SEEN = 2  # in a trail: looked at, although nobody recorded it by itself (casts, views, parts of a function)
FIRST = 2  # bits that are no places
FREE = (Window, Full, Arange, Copy)  # of known values, these do not end an elementwise loop

LONGEST = 64  # instructions of a loop's kernel: beyond, registers spill and compiling takes long (collatz, julia)
ROLLED = 2048  # instructions of a loop whose turns are all alike: its kernel has one turn (plan/roll.py)
UPDATE_WEIGHT = 4  # of a pass that updates a part, in instructions: loops that only copy come to an end, too
HELD_BYTES = 32 << 20  # what a loop may keep alive that would be gone if each turn were evaluated
WALK_BYTES = HELD_BYTES // LONGEST  # arrays below cannot become so much
WALK_BYTES_ROLLED = HELD_BYTES // ROLLED
LOOK_EACH = 8  # turns beyond LONGEST, at which what they keep alive is looked at
TRIES, TRIES_EACH = (
    4,
    8,
)  # flushes at a head that may need a new plan, and one in so many; more: it is flushed each turn


class Head:
    """A place at which a loop is flushed."""

    __slots__ = ("flushes", "grown", "held", "longest", "odd", "passed", "planned", "restless", "turns")

    def __init__(self) -> None:
        self.longest = LONGEST  # instructions between flushes: more, once turns are seen to be alike
        self.odd = False  # turns are not alike
        self.turns = 0  # beyond LONGEST
        self.grown = 0  # bytes that they have added to what only pending work keeps alive
        self.passed = 0  # what had been recorded when the loop came by
        self.held = 0  # bytes that only pending work kept alive in its first turn
        self.flushes = 0
        self.planned = 0  # flushes that needed a new plan
        self.restless = False  # what is flushed here is seldom what was flushed before (a short loop in another)


class Pending:
    """What has been recorded."""

    __slots__ = ("began", "heads", "longest", "recorded")

    def __init__(self) -> None:
        self.longest = LONGEST  # of the heads that were passed since
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
    pending.longest = LONGEST


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
    op = node.op
    if op.weight:
        pending.recorded += op.weight
        return 0
    if type(op) in FREE and not trail & ~SEEN:
        return 0
    if type(op) is Update and _swept(op, node.inputs[0]):
        pending.recorded += UPDATE_WEIGHT
        return 0
    return 0 if type(op) is Window and shifted(op.strides, op.dtype, node.inputs[0]) else OTHER


def _swept(op: Update, base: Node) -> bool:
    """Whether an update is one of a sweep over and over again: passes share tiles with it, but for those of a mesh.

    Loops whose bounds change from turn to turn are evaluated each turn: all turns have one plan then.
    """
    if cluster_here(current().blocks)[0] is not None or not shifted(op.window.strides, op.window.dtype, base):
        return False
    return type(base.op) is not Update or base.value is not None or base.op.window == op.window


def shifted(strides: Sequence[int], dtype: np.dtype[Any], base: Node) -> bool:
    """Whether a window is a part of a value, element by element: passes on both sides of it may share tiles."""
    if dtype != base.dtype or not base.known:
        return False
    own = strides_of(base.dims, dtype.itemsize, base.order)
    return all(s in own for s in strides)


def within(place: Place, trail: int) -> bool:
    """Whether a place is one of an elementwise loop that is flushed elsewhere, at its head: most operators are."""
    on_the_way = trail & pending.heads and not trail & OTHER and place not in _heads
    return bool(on_the_way) and pending.recorded - pending.began <= 2 * pending.longest


def due(place: Place, trail: int, nodes: Sequence[Node]) -> bool:
    """Whether to flush before a place that is in the trail of the operands `nodes` is recorded again."""
    if trail & OTHER:
        return True
    head = _heads.get(place)
    if head is None:
        if trail & pending.heads:
            return not within(place, trail)  # else the head may not be on the way any more
        head = _heads[place] = Head()
        pending.heads |= sites.get(place, 0)  # another thread may start over
    first = head.passed <= pending.began
    now = pending.recorded
    if head.passed == now and not first:
        return False  # as a moment ago
    turn = now - (pending.began if first else head.passed)
    head.passed = now
    ahead = now - pending.began + turn
    if head.restless or (ahead > head.longest and not _goes_on(head, nodes)):
        return True
    pending.longest = max(pending.longest, head.longest)
    most = max((n.nbytes for n in nodes), default=0)
    if ahead > LONGEST:
        head.turns += 1
        if most >= WALK_BYTES_ROLLED and head.turns % LOOK_EACH == 0:
            head.grown += LOOK_EACH * only_here(_nearest(nodes, turn))
        return head.grown > HELD_BYTES
    head.grown = 0
    if most < WALK_BYTES:
        return False
    held = only_here(numbered(nodes))
    if first:
        head.held = held
    return held - head.held > HELD_BYTES


def _goes_on(head: Head, nodes: Sequence[Node]) -> bool:
    """Whether a loop may have twice as many turns: they are alike, and one kernel runs them all."""
    if head.odd or head.longest >= ROLLED:
        return False
    at = numbered(nodes)
    weight = sum(UPDATE_WEIGHT if type(n.op) is Update else n.op.weight for n in at if n.value is None)
    if weight < (pending.recorded - pending.began) // 2:  # most of what was recorded is not on the way
        pending.began = pending.recorded - weight
        return True
    settings = current()
    rolls = settings.fusion and settings.engine is None and cluster_here(settings.blocks)[0] is None
    if not rolls or not repeats(at, {c.node for c in pending_cells() if c.node is not None}, LONGEST):
        head.odd, head.longest = True, LONGEST
        return False
    head.longest *= 2
    return True


def only_here(nodes: Iterable[Node]) -> int:
    """Bytes of known values that nothing but pending nodes keeps alive."""
    total = 0
    for n in nodes:
        if type(n.value) is np.ndarray and getrefcount(n.value) <= _ALONE:
            total += n.value.nbytes
    return total


def _nearest(nodes: Sequence[Node], count: int) -> list[Node]:
    """Some of the nodes that others hang on, the nearest ones."""
    found = dict.fromkeys(nodes)
    for n in nodes if count else ():
        queue = [n]
        for m in queue:
            if len(found) > count:
                break
            if m.value is None:
                new = [x for x in m.inputs if x not in found]
                found |= dict.fromkeys(new)
                queue += new
    return list(found)


_ALONE = 2  # references to such a value: the node's, and getrefcount's argument


def flushed(place: Place, planned: int) -> None:
    """Note a flush at a place, before which `planned` plans had been made."""
    pending.began = pending.recorded
    pending.longest = LONGEST
    head = _heads.get(place)
    if head is not None:
        head.flushes += 1
        head.planned += compiler.planned_count > planned
        head.restless = head.restless or head.planned > TRIES + head.flushes // TRIES_EACH
