"""Run a plan block by block: all of it in one process, or a worker's share. In: streams, leaves. Out: results.

While a block is computed, the next is read and the one before is written. A share is a generator that gives what goes
to each of the others and gets what they sent; all workers do so equally often (plan/shares.py). One alone never does.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise import events
from tilewise.engine.counters import DiskCounters
from tilewise.engine.device import runner
from tilewise.engine.prepared.plan import has_nothing
from tilewise.engine.stream.collective import run_collective
from tilewise.engine.stream.crossing import Talk, all_summed, brought
from tilewise.engine.stream.lending import Lending, LoopLending
from tilewise.engine.stream.values import Taken, Values
from tilewise.ir.reductions import Combining
from tilewise.layout import Held, dims, owned_box, reduction
from tilewise.ops.const import Const
from tilewise.plan.shares import Shares, boxes_of
from tilewise.plan.stages import memory_of
from tilewise.plan.streams import Loop, Streams, counts_for
from tilewise.stage.steps import Step, Tiled, makes, reads
from tilewise.store import pool
from tilewise.store.base import ND, Sink, within
from tilewise.store.spill import check_room


def run_streams(
    streams: Streams,
    leaves: Sequence[Any],
    consts: Sequence[Any],
    backend: str,
    memory: int | None,
    counters: DiskCounters,
    sinks: Mapping[int, Sink] | None = None,
) -> list[Any]:
    """The results of a plan. Leaves are arrays, or sources that are read by boxes.

    `sinks` says by position which results are written where: of values that would go to spill files.
    """
    sinks = sinks or {}
    spilled = streams.spilled_bytes - sum(streams.plan.specs[x].nbytes for x in sinks)
    check_room(spilled)
    counters.blocks = streams.blocks
    counters.predicted_read_bytes += streams.read_bytes
    counters.predicted_spilled_bytes += spilled
    counters.predicted_restored_bytes += streams.restored_bytes
    values = Values(streams, leaves, consts, memory, counters, sinks)
    try:
        with pool.bounded(memory):
            for _ in Share(Shares(streams, 1, 0), 0, values, backend).run():
                raise AssertionError("there is nobody to talk to")
        return [values.there[streams.origin[w]] for w in streams.wanted]
    finally:
        values.close()
        counters.peak_bytes = values.blocks.peak_bytes


class Share:
    """A worker's share of streams."""

    def __init__(
        self,
        shares: Shares,
        worker: int,
        values: Values,
        backend: str,
        tell: Callable[[int, int, int], None] | None = None,  # the driver, where it is far away
        lending: Lending | None = None,
    ) -> None:
        self.tell, self.lending = tell, lending
        self.shares, self.worker, self.values, self.backend = shares, worker, values, backend
        self.streams, self.plan = shares.of[worker], shares.streams.plan
        self.consts = {pos: values.there[pos] for pos in self.plan.consts}
        self.reached = 0, 0  # blocks of all loops that are done, and how many there are

    def run(self) -> Talk[None]:
        """All loops, one after the other."""
        values, shares = self.values, self.shares
        given = sum(self.plan.specs[x].nbytes for x in self.streams.here if x not in shares.held)
        values.blocks.reserve(("leaves that are arrays",), given)
        total, done = sum(len(loop.order) for loop in self.streams.loops if loop.steps), 0
        for k, loop in enumerate(self.streams.loops):
            if shares.workers > 1:
                yield from brought(shares, self.worker, k, values)
            self.reached = done, total
            done += len(loop.order) if loop.steps else 0
            if loop.once:
                self._once(loop)
            if loop.steps:
                yield from self._loop(k)
            for step in loop.after:
                values.make_room(step.pos)
                yield from run_collective(shares, self.worker, k, step, values)
            values.drop(loop.drops)

    def _once(self, loop: Loop) -> None:
        """Steps on values that are here as a whole."""
        here: list[Any] = [None] * len(self.plan.specs)
        made = {x for s in loop.once for x in makes(s)}
        copied = self.streams.copied(loop)
        for x in {x for s in loop.once for x in reads(s)} - made:
            here[x] = self.values.whole(x).copy(order="K") if x in copied else self.values.whole(x)
        runner(loop.once, self.backend).run(self._nodes(0), here, free=False)
        for x in made:
            self.values.keep(x, here[x])

    # -- blocks ---------------------------------------------------------------------------------------------------

    def _loop(self, index: int) -> Talk[None]:
        """All blocks, one after the other; then what they add up to, with those of other workers."""
        streams, values, store, loop = self.streams, self.values, self.values.blocks, self.streams.loops[index]
        for pos in loop.gives:
            values.make_room(pos)
        views = memory_of(loop.steps, self.plan.specs)
        sums = {pos: _Sum(values, pos, pos in streams.in_turn, pos in views) for pos in loop.partial}
        ends = sum(streams.largest(x) if x in streams.on_disk else self.plan.specs[x].nbytes for x in loop.partial)
        for pos in loop.partial:
            if pos in streams.on_disk:
                values.make_room(pos)
        store.reserve(("contributions",), ends + streams.sum_bytes(loop))
        yield from self._turns(index, sums)
        store.release(("contributions",))
        for pos, tree in sums.items():
            if pos in streams.on_disk:
                tree.finish()
            elif self.shares.workers > 1 and pos in self.shares.sums(loop):
                values.keep(pos, (yield from all_summed(self.shares, self.worker, pos, tree.by, tree.contribution())))
            else:
                values.keep(pos, tree.result())

    def _turns(self, index: int, sums: Mapping[int, _Sum]) -> Talk[None]:
        """Every block of a loop has its turn. Those that others have taken have their place in the order, too."""
        streams, values, loop = self.streams, self.values, self.streams.loops[index]
        steps = runner(loop.steps, self.backend)
        work = streams.work_bytes(loop, [streams.largest(x) for x in range(len(self.plan.specs))])
        copied = {x for x in streams.copied(loop) if x in loop.takes}
        work += sum(map(streams.largest, copied))
        left = deque(loop.order)
        lent = None if self.lending is None else self.lending.of_loop(self.shares, self.worker, index, values)

        def computed(block: int, arrays: Mapping[int, ND]) -> tuple[Mapping[int, ND], set[int]]:
            own = {x: array.copy(order="K") if x in copied else array for x, array in arrays.items()}
            made, nothing = self._block(loop, steps, block, own)
            return {x: made[x] for x in (*loop.gives, *loop.partial)}, nothing

        def turn(taken: Taken, ahead: int | None) -> Taken | None:
            """A block, and reading the next one on the way."""
            block, before, began = taken.block, self.shares.before, time.perf_counter()
            arrays = taken.wait()
            self._tell()
            read = ahead is not None and streams.ahead
            after = values.take(loop, ahead, taken, before(index, ahead)) if read and ahead is not None else None
            values.blocks.reserve(("a block",), work)
            made, nothing = computed(block, arrays)
            for pos, tree in sums.items():
                tree.add(block, None if pos in nothing else made[pos])
            values.give(block, {pos: made[pos] for pos in loop.gives})
            del made, arrays
            values.blocks.release(("a block",))
            values.blocks.release(("blocks read ahead", block))
            if ahead is not None and after is None:
                after = values.take(loop, ahead, taken, before(index, ahead))
            if lent is not None and left:
                lent.hand_out(left, time.perf_counter() - began)
            return after

        taken = values.take(loop, left[0], None, None) if left else None
        if left:
            left.popleft()
        while taken is not None:
            taken = turn(taken, left.popleft() if left else None)
        if lent is not None:
            self._collect(lent, sums, turn)
        values.written()
        if self.shares.anyones(index):  # all wait for all: who has nothing left to do helps the others
            if lent is not None:
                lent.open(computed, work)
            yield [[] for _ in range(self.shares.workers)]
            if lent is not None:
                lent.shut()

    def _collect(
        self, lent: LoopLending, sums: Mapping[int, _Sum], turn: Callable[[Taken, int | None], Taken | None]
    ) -> None:
        """What others made of blocks, in the order of blocks; what they could not make is made here."""
        order = {block: k for k, block in enumerate(lent.loop.order)}
        for block in sorted(lent.tickets, key=order.__getitem__):
            found = lent.collect(block)
            if found is None:
                turn(self.values.take(lent.loop, block, None, self.shares.before(lent.index, block)), None)
            else:
                self._tell()
                for pos, tree in sums.items():
                    tree.add(block, found[0].get(pos))
            lent.done(block)
        lent.close()

    def _tell(self) -> None:
        """Say how far this is, one block further each time."""
        done, total = self.reached
        if self.tell is None:
            events.activity.reach("block", done, total, self.values.counters.read_bytes)
        else:
            self.tell(done, total, self.values.counters.read_bytes)
        self.reached = done + 1, total

    def _block(self, loop: Loop, steps: Any, block: int, arrays: Mapping[int, ND]) -> tuple[list[Any], set[int]]:
        """What the steps of a loop make of a block, and which of it are contributions of nothing."""
        here: list[Any] = [None] * len(self.plan.specs)
        for pos, number in self.consts.items():
            here[pos] = number
        for x, array in arrays.items():
            here[x] = array
        nodes, nothing = self._nodes(block), set[int]()
        single = [s for step in loop.steps for s in _single(step)]
        if not any(has_nothing(self.plan, s, block) for s in single):
            steps.run(nodes, here)
        else:
            for step in loop.steps:
                self._some(step, nodes, here, block, nothing)
        return here, nothing

    def _some(self, step: Step, nodes: Sequence[Any], here: list[Any], block: int, nothing: set[int]) -> None:
        """One step of a block that has no elements for some."""
        if isinstance(step, Tiled):
            for inner in step.steps:
                self._some(inner, nodes, here, block, nothing)
        elif has_nothing(self.plan, step, block):
            for p in makes(step):
                n, by = nodes[p], reduction(self.plan.layouts[p])
                if by is None:
                    here[p] = pool.empty(n.dims, n.dtype, n.order)
                else:
                    here[p] = np.full(n.dims, by.identity(n.dtype), n.dtype)
                    nothing.add(p)
        else:
            runner([step], self.backend).run(nodes, here, free=False)

    def _nodes(self, block: int) -> Sequence[Any]:
        """The graph as a block sees it, with the numbers of this run where a step looks at them."""
        nodes = self.plan.nodes(block)
        if not self.plan.stages.centred:
            return nodes
        given = list(nodes)
        for pos, number in self.consts.items():
            scalar: Any = np.asarray(number)[()]
            given[pos] = replace(given[pos], op=Const(scalar))
        return given


def _single(step: Step) -> Sequence[Step]:
    return step.steps if isinstance(step, Tiled) else (step,)


class _Sum:
    """Contributions of blocks to a value; on a grid, to each of its parts, which go to a file where that is planned."""

    def __init__(self, values: Values, pos: int, in_turn: bool, view: bool) -> None:
        self.values, self.pos, self.in_turn, self.view = values, pos, in_turn, view
        self.layout, self.spec, self.mesh = values.plan.layouts[pos], values.plan.specs[pos], values.plan.mesh
        by = reduction(self.layout)
        assert by is not None
        self.by = by
        self.parts: dict[Held, Combining] = {}

    def add(self, block: int, part: ND | None) -> None:
        """What a block contributes; None: nothing."""
        if not counts_for(self.layout, self.mesh, block):
            return
        box = owned_box(self.layout, self.spec.shape, self.mesh, block=block)
        if box not in self.parts and self.pos in self.values.streams.on_disk:
            self.finish()
        tree = self.parts.get(box) or self.parts.setdefault(box, Combining(self.by))
        if self.view and part is not None:  # of what may be added up in its place, and is larger
            part = part.copy(order="K")
        if not self.in_turn:
            tree.add(None if part is None else np.asarray(part))
        elif part is not None:
            so_far = tree.result()
            if so_far is None:  # what follows is added in its place
                tree.add(part if part.base is None else part.copy())
            else:
                tree.add(self.by.combine(so_far, part, so_far))

    def finish(self) -> None:
        """Write parts that are done to their file."""
        for box, tree in self.parts.items():
            value = self._value(box, tree)
            for part in boxes_of(box):
                self.values.put(self.pos, part, value[within(part, box)])
        self.parts.clear()

    def contribution(self) -> ND | None:
        """What blocks here add up to; None: nothing."""
        ((_, tree),) = self.parts.items() or (((), Combining(self.by)),)
        found = tree.result()
        return None if found is None else np.asarray(found)

    def result(self) -> ND:
        """The value, as far as blocks here contribute to it."""
        full = tuple((0, n) for n in self.spec.shape)
        if [*self.parts] == [full]:
            return self._value(full, self.parts[full])
        out = pool.empty(self.spec.shape, self.spec.dtype, self.spec.order)
        for box, tree in self.parts.items():
            value = self._value(box, tree)
            for part in boxes_of(box):
                out[within(part, full)] = value[within(part, box)]
        return out

    def _value(self, box: Held, tree: Combining) -> ND:
        found = tree.result()
        if found is None:
            return np.full(dims(box), self.by.identity(self.spec.dtype), self.spec.dtype)
        return np.asarray(found)
