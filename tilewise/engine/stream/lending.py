"""Turns that an idle worker takes for a busy one. In: blocks of a loop that have not had theirs. Out: what they make.

A worker that has had all of its own turns waits for the others, with the memory of one more turn set aside: it reads a
block of another worker itself, runs the steps, and writes to sinks what goes there. Parts of other kept values go to
the block's worker in messages of a bounded size, each put where it belongs as it comes; contributions to sums go with
the last message and wait there for their place in the order of blocks. For these the block's worker sets memory aside
before it hands a block out; if there is none, it keeps its blocks. So plans, bits and limits of memory are the same.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewise import events
from tilewise.engine.stealing import Sharing, Turn
from tilewise.engine.stream.values import Values
from tilewise.layout import Box, dims
from tilewise.plan.shares import Shares, in_parts
from tilewise.plan.streams import Loop
from tilewise.records import dataclass
from tilewise.store.base import ND, within
from tilewise.store.spill import Spilled

Made = tuple[Mapping[int, ND], set[int]]  # values of a block, and which of them are contributions of nothing


@dataclass
class Lending:
    """What a worker hands out of a run, and does for others. Absent where there is only one process."""

    sharing: Sharing
    epoch: int
    run: int

    def of_loop(self, shares: Shares, worker: int, index: int, values: Values) -> LoopLending | None:
        """For a loop whose blocks any worker can read."""
        return LoopLending(self, shares, worker, index, values) if shares.anyones(index) else None


class LoopLending:
    """The same for one loop."""

    def __init__(self, lending: Lending, shares: Shares, worker: int, index: int, values: Values) -> None:
        self.sharing, self.epoch, self.run = lending.sharing, lending.epoch, lending.run
        self.shares, self.worker, self.index, self.values = shares, worker, index, values
        streams = shares.of[worker]
        self.loop: Loop = streams.loops[index]
        self.kept_bytes = sum(map(streams.largest, self.loop.partial))  # by this worker, until a block's place comes
        back = sum(streams.largest(x) for x in self.loop.gives if x not in values.sinks)
        self.moved_bytes = self.kept_bytes + back
        budget = values.blocks.budget
        free = 0 if budget is None else budget - sum(streams.loop_bytes(index)) - shares.message_bytes
        self.most = free // self.kept_bytes if self.kept_bytes else len(self.loop.order)
        self.tickets: dict[int, tuple[int, int]] = {}  # by block, in the order in which they were handed out
        self._spilled: dict[tuple[int, int], int] = {}  # by ticket: bytes that came for files
        self._error: Exception | None = None
        self._began, self._bytes = time.perf_counter(), self.sharing.bytes

    # -- for a worker with blocks left --------------------------------------------------------------------------------

    def hand_out(self, left: deque[int], seconds: float) -> None:
        """Let those who are idle take turns of blocks that are left, the last ones first."""
        purpose, most = (self.run, self.index), max(self.most - len(self.tickets), 0)
        for block, taker in self.sharing.hand_out(left, seconds, self.moved_bytes, purpose, most):
            self.values.blocks.reserve(("a stolen block", block), self.kept_bytes)
            self.sharing.wire.keeps = self._keep
            self.tickets[block] = self.sharing.give(taker, self.run, Turn(self.run, self.index, block), {})

    def _keep(self, ticket: tuple[int, int], where: tuple[int, Box], part: ND) -> None:
        """Put a part of what another worker has made where it belongs. Errors wait: they are not the connection's."""
        if ticket not in self.tickets.values():
            return  # of a run that was given up
        pos, box = where
        try:
            self.values.written()
            self.values.put(pos, box, part.reshape(dims(box)))
        except Exception as error:
            self._error = error
        else:
            self.sharing.bytes += part.nbytes
            if isinstance(self.values.there[pos], Spilled):
                self._spilled[ticket] = self._spilled.get(ticket, 0) + part.nbytes

    def collect(self, block: int) -> Made | None:
        """Wait for what another worker made of a block; None if it could not."""
        ticket = self.tickets[block]
        found = self.sharing.collect(ticket, self.epoch, self.run)
        if self._error is not None:
            raise self._error
        if found is None:  # what came of it is written once more
            self.values.counters.spilled_bytes -= self._spilled.pop(ticket, 0)
            return None
        return found, {pos for pos in self.loop.partial if pos not in found}

    def done(self, block: int) -> None:
        """What a block contributes has been added."""
        self.values.blocks.release(("a stolen block", block))

    def close(self) -> None:
        """All blocks of this worker have had their turns."""
        self.sharing.wire.keeps = None
        if self.tickets and events.listeners:
            text, moved = f"{len(self.tickets)} blocks", self.sharing.bytes - self._bytes
            events.emit(events.Event("stolen", text, self._began, time.perf_counter(), moved, self.worker))

    # -- for a worker that has none -----------------------------------------------------------------------------------

    def open(self, steps: Callable[[int, Mapping[int, ND]], Made], work: int) -> None:
        """Take turns of others from now on, while this worker waits for them. `steps` runs those of the loop."""

        def turn(job: Turn, send: Callable[[Any, ND], None]) -> dict[int, ND]:
            return self._turn(job.block, send, steps, work)

        self.sharing.open(self.run, self.index, turn)

    def shut(self) -> None:
        """The others have had their turns, too."""
        self.sharing.close()

    def _turn(
        self,
        block: int,
        send: Callable[[Any, ND], None],
        steps: Callable[[int, Mapping[int, ND]], Made],
        work: int,
    ) -> dict[int, ND]:
        values, counters = self.values, self.values.counters
        before = counters.read_bytes, counters.restored_bytes, counters.written_bytes
        store = values.blocks
        try:
            taken = values.take(self.loop, block, None, self.shares.before(self.index, block))
            try:
                arrays = taken.wait()
                store.reserve(("a block",), work)
                try:
                    made, nothing = steps(block, arrays)
                    self._give(block, {pos: made[pos] for pos in self.loop.gives}, send)
                    values.written()
                finally:
                    store.release(("a block",))
            finally:
                store.release(("blocks read ahead", block))
            return {pos: np.asarray(made[pos]) for pos in self.loop.partial if pos not in nothing}
        except BaseException:  # the block's own worker does, and counts, all of it again
            values.settle()
            moved = counters.read_bytes, counters.restored_bytes, counters.written_bytes
            counters.again_bytes += sum(moved) - sum(before)
            counters.read_bytes, counters.restored_bytes, counters.written_bytes = before
            raise

    def _give(self, block: int, made: Mapping[int, ND], send: Callable[[Any, ND], None]) -> None:
        """Write what goes to sinks; send the rest."""
        values, most = self.values, max(self.shares.message_bytes, 1)
        values.give(block, {pos: x for pos, x in made.items() if pos in values.sinks})
        for pos, box, data in values.parts(block, {pos: x for pos, x in made.items() if pos not in values.sinks}):
            for part in in_parts(box, data.dtype.itemsize, most):
                send((pos, part), data[within(part, box)])
