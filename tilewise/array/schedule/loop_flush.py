"""Loops: when what is pending is evaluated. In: nodes, and where they were recorded. Out: trails, and when to flush.

A node's `trail` is a bit set: the places its pending ancestors were recorded from, and whether all of them are
elementwise, or shifted parts of what is. A loop of such operations alone goes on for several iterations, until the
kernel would become too long; it is then flushed at always the same place of its body, its *head*
(docs/design/0002-passes.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.array.pending import pending_cells
from tilewise.array.session import on_workers
from tilewise.config import current
from tilewise.ir.node import Node, numbered
from tilewise.ir.order import strides_of
from tilewise.later import later
from tilewise.ops.const import Const
from tilewise.ops.create import Arange, Full
from tilewise.ops.index import Update
from tilewise.ops.join import Copy
from tilewise.ops.periodic import MOVES, rolled
from tilewise.ops.views import Window

if TYPE_CHECKING:
    from tilewise.plan import roll
else:
    roll = later("tilewise.plan.roll")

Place = tuple[int, ...]  # a code object's id (hashing code is slow) and the instruction in it; of its callers as well

OTHER = 1  # in a trail: some ancestor is not elementwise
SEEN = 2  # in a trail: looked at, although nobody recorded it by itself (casts, views, parts of a function)
PROMOTED = 4  # in a trail: recorded although it is small (promote.py)
FIRST = 3  # low bits reserved for flags
FREE = (Window, Full, Arange, Copy)  # of known values, these do not end an elementwise loop

LONGEST = 64  # instructions of a loop's kernel: beyond, registers spill and compiling takes long (collatz, julia)
ROLLED = 2048  # instructions of a loop whose iterations are all alike: its kernel has one iteration (plan/roll.py)
UPDATE_WEIGHT = 4  # of a pass that updates a part, in instructions: loops that only copy come to an end, too
HELD_BYTES = 32 << 20  # what a loop may keep alive that would be gone if each iteration were evaluated
WALK_BYTES = HELD_BYTES // LONGEST  # arrays below cannot become so much
WALK_BYTES_ROLLED = HELD_BYTES // ROLLED
LOOK_EACH = 8  # iterations beyond LONGEST, at which what they keep alive is looked at
MAX_ANSWERS = 256  # graphs of which is known whether they roll


class Head:
    """A place at which a loop is flushed, and how far the loop has come since its last flush."""

    __slots__ = ("alike", "bit", "extra", "grown", "held", "iteration", "longest", "passed", "place", "start")

    def __init__(self, place: Place, bit: int) -> None:
        self.place = place
        self.bit = bit  # in the trails of what depends on an iteration that has passed here
        self.begin(0, 0)

    def begin(self, start: int, now: int) -> None:
        """The first iteration since a flush has passed: it began when `start` instructions had been recorded."""
        self.start = start
        self.passed = now  # what had been recorded when the loop came by
        self.longest = LONGEST  # instructions between flushes: more, if iterations are seen to be alike
        self.iteration = 0  # instructions of the last iteration; 0: not known yet, the first may have more before it
        self.alike = 0  # iterations in a row that had as many
        self.extra = 0  # beyond LONGEST
        self.grown = 0  # bytes that they have added to what only pending work keeps alive
        self.held = 0  # bytes that only pending work kept alive in the first iteration


class Pending:
    """What has been recorded."""

    __slots__ = ("began", "heads", "recorded", "traced")

    def __init__(self) -> None:
        self.recorded = 0  # elementwise instructions, ever
        self.began = 0  # the same at the last flush
        self.traced = 0  # the same when a function began to be traced
        self.heads = 0  # all bits of heads


bits: dict[Place, int] = {}  # places of pending operations -> bit
pending = Pending()
_heads: dict[Place, Head] = {}
_by_bit: dict[int, Head] = {}
_answers: dict[Any, bool] = {}  # by the structure of a graph: whether it rolls


def new_bit(place: Place) -> int:
    """The bit of a place from which nothing pending was recorded."""
    bit = bits[place] = 1 << (len(bits) + len(_heads) + FIRST)
    return bit


def nothing_pending() -> None:
    """Start over: no node that matters has a trail."""
    bits.clear()
    if _heads:
        _heads.clear()
        _by_bit.clear()
        pending.heads = 0
    pending.began = pending.recorded


forget_places = nothing_pending  # places mean something else from now on


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
    if type(op) in FREE and not trail & ~(SEEN | PROMOTED):
        return 0
    if type(op) is Update and _swept(op, node.inputs[0]):
        pending.recorded += UPDATE_WEIGHT
        return 0
    if type(op) in MOVES and rolled_read(node):
        return 0
    return 0 if type(op) is Window and shifted(op.strides, op.dtype, node.inputs[0]) else OTHER


def rolled_read(node: Node) -> bool:
    """Whether a rolled array, of known values, is a shifted read of the pass that needs it (rewrite/periodic.py)."""
    return (found := rolled(node)) is not None and found[0].value is not None and not on_workers()


def _swept(op: Update, base: Node) -> bool:
    """Whether an update is one of a sweep over and over again: passes share tiles with it.

    Loops whose bounds change are evaluated in each iteration: all iterations then have one plan.
    """
    if not shifted(op.window.strides, op.window.dtype, base):
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
    led = trail & pending.heads
    if not led or trail & OTHER:
        return False
    head = _by_bit.get(led)
    if head is None:  # of several, the last that was found
        head = _by_bit.get(1 << (led.bit_length() - 1))
        own = _heads.get(place)
        if head is None or (own is not None and led & own.bit):
            return False
    elif head.place == place:
        return False
    return pending.recorded - head.start <= 2 * head.longest


def due(place: Place, trail: int, nodes: Sequence[Node]) -> bool:
    """Whether to flush before a place that is in the trail of the operands `nodes` is recorded again.

    The answer depends on what was recorded since the last flush, and on nothing before it: otherwise later operations
    would see another graph the next time, with other bits (docs/design/0022-same-bits.md).
    """
    if trail & OTHER:
        return True
    head = _heads.get(place)
    if head is None or not trail & head.bit:
        if trail & pending.heads:
            return not within(place, trail)  # else the head may not be an ancestor any more
        return _begins(place, nodes)
    now = pending.recorded
    if head.passed == now:
        return False  # as a moment ago
    iteration = now - head.passed
    if not head.iteration:
        head.start = min(head.start, head.passed - iteration)  # an iteration may record more than the next one reads
    head.passed = now
    ahead = now - head.start + iteration
    strayed = iteration != head.iteration and head.alike > 1  # a short loop in another: all its chunks begin here
    head.alike = head.alike + 1 if iteration == head.iteration else 0
    head.iteration = iteration
    if strayed or (ahead > head.longest and not _goes_on(head, nodes)):
        return True
    most = max((n.nbytes for n in nodes), default=0)
    if ahead > LONGEST:
        head.extra += 1
        if most >= WALK_BYTES_ROLLED and head.extra % LOOK_EACH == 0:
            head.grown += LOOK_EACH * only_here(_nearest(nodes, iteration))
        return head.grown > HELD_BYTES
    return most >= WALK_BYTES and only_here(numbered(nodes)) - head.held > HELD_BYTES


def _begins(place: Place, nodes: Sequence[Node]) -> bool:
    """A loop is seen to repeat for the first time since a flush. True if one iteration is long enough."""
    head = _heads.get(place)
    if head is None:
        bit = 1 << (len(bits) + len(_heads) + FIRST)
        head = _heads[place] = _by_bit[bit] = Head(place, bit)
        pending.heads |= bit
    graph = numbered(nodes)
    iteration = _weight(graph)
    head.begin(pending.recorded - iteration, pending.recorded)
    for n in nodes:
        if n.trail:
            n.trail |= head.bit
    if max((n.nbytes for n in nodes), default=0) >= WALK_BYTES:
        head.held = only_here(graph)
    return 2 * iteration > head.longest and not _goes_on(head, nodes)


def _weight(graph: Iterable[Node]) -> int:
    """Instructions of a graph that are not computed yet."""
    return sum(UPDATE_WEIGHT if type(n.op) is Update else n.op.weight for n in graph if n.value is None)


def _goes_on(head: Head, nodes: Sequence[Node]) -> bool:
    """Whether a loop may have many more iterations: they are alike, and one kernel runs them all."""
    graph = numbered(nodes)
    weight = _weight(graph)
    if weight < (pending.recorded - head.start) // 2:  # most of what was recorded is not needed here
        head.start = pending.recorded - weight
        return True
    if head.longest >= ROLLED:
        return False
    settings = current()
    if not settings.fusion or settings.engine is not None:
        return False
    wanted = {c.node for c in pending_cells() if c.node in graph}
    key = tuple([(_said(n), n in wanted, *[graph[i] for i in n.inputs if n.value is None]) for n in graph])
    rolls = _answers.get(key)
    if rolls is None:
        if len(_answers) >= MAX_ANSWERS:
            _answers.clear()
        rolls = _answers[key] = roll.repeats(graph, wanted, LONGEST)
    if rolls:
        head.longest = min(2 * head.longest, ROLLED) if head.alike < 2 else ROLLED
    return rolls


def _said(n: Node) -> Any:
    """What of a node decides whether loops roll."""
    if n.value is not None or type(n.op) is Window:
        return n.dtype, not n.shape
    if type(n.op) is Const:
        return n.op if n.op.sharp else (n.dtype, None)
    return n.op, n.dtype, not n.shape


def only_here(nodes: Iterable[Node]) -> int:
    """Bytes of known values that nothing but pending nodes keeps alive."""
    total = 0
    for n in nodes:
        if type(n.value) is np.ndarray and getrefcount(n.value) <= _ALONE:
            total += n.value.nbytes
    return total


def _nearest(nodes: Sequence[Node], count: int) -> list[Node]:
    """Some of the nodes that others depend on, the nearest ones."""
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


def flushed() -> None:
    """Note a flush."""
    pending.began = pending.recorded
