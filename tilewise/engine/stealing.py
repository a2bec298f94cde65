"""Blocks that an idle process computes for a busy one. In: a step on a block, its operands. Out: its results.

A process that has waited for a while says so to the others. One that has blocks left looks, after each block, whether
somebody asks, and hands out half of what is left if a block takes longer than sending it. Results go back, and are
combined in the order of blocks: who computed them changes no bit. Where workers have several blocks, and where blocks
take turns (stream/lending.py): there, whoever computes a block reads it itself, within the memory of its own turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tilewise.engine.device import StepRunner, runner
from tilewise.engine.network.frames import flat
from tilewise.engine.network.transport import PeerFailed, PeerLost
from tilewise.engine.network.wire import DONE, JOB, PART, Wire
from tilewise.engine.recovery.copies import packed, unpacked
from tilewise.ops.const import Const
from tilewise.plan.blocks import BlockNode
from tilewise.plan.exchanges import Exchanges
from tilewise.stage.steps import Step, Tiled, makes

ND = np.ndarray[Any, Any]
Values = dict[int, ND]  # by position in the plan
LEAST_SECONDS = 2e-3  # that a block must take to be handed out
WORTH = 2.0  # so many times as long as sending it
RATE = 1e9  # bytes per second between processes (benchmarks/transport.py: 2 to 4)


class Job(NamedTuple):
    """A step on a block, as another process can run it."""

    number: int  # of the plan
    step: int  # of the plan's steps
    inner: int  # of the steps of a group, or -1
    block: int
    backend: str
    consts: tuple[Any, ...]


class Turn(NamedTuple):
    """The turn of a block in a loop, as another process can take it."""

    run: int
    loop: int
    block: int


def step_of(plan: Exchanges, job: Job) -> Step:
    """The step that a job is about."""
    step = plan.steps[job.step]
    if job.inner < 0:
        return step
    assert isinstance(step, Tiled)
    return step.steps[job.inner]


def nodes_of(plan: Exchanges, block: int, consts: Sequence[Any]) -> Sequence[BlockNode]:
    """The graph as a block sees it, with the numbers of this run where a step looks at them."""
    nodes = plan.nodes(block)
    if not plan.stages.centred:
        return nodes
    given = list(nodes)
    for pos, number in zip(plan.consts, consts, strict=True):
        given[pos] = replace(given[pos], op=Const(number))
    return given


class Sharing:
    """What a process hands out to others, and does for them: steps on blocks of plans that it knows, at any time; turns
    of blocks where it has had its own (`open`)."""

    def __init__(self, wire: Wire, plans: Mapping[int, Exchanges] | None) -> None:
        self.wire = wire
        self.plans = plans  # None: turns only
        self.bytes = self.blocks = 0  # handed out in the run under way
        self._runners: dict[tuple[int, int, int, str], StepRunner] = {}
        self._tickets = 0
        self._turn: Callable[[Turn, Callable[[Any, ND], None]], Values] | None = None
        if plans is not None:
            wire.helps = self.help

    def begin(self) -> None:
        """A run starts: nobody waits for results of the last one, if it was given up."""
        self.bytes = self.blocks = 0
        self.wire.results.clear()

    def forget(self, numbers: Sequence[int]) -> None:
        """Let go of plans."""
        self._runners = {key: x for key, x in self._runners.items() if key[0] not in numbers}

    # -- for those who are busy ---------------------------------------------------------------------------------------

    def hand_out(
        self, left: deque[int], seconds: float, nbytes: int, purpose: object = True, most: int | None = None
    ) -> list[tuple[int, int]]:
        """Blocks that others take, with who: at most half of what is left, which gets shorter."""
        given: list[tuple[int, int]] = []
        if len(left) < 2 or most == 0 or seconds < max(LEAST_SECONDS, WORTH * nbytes / RATE):
            return given
        for taker in self.wire.idle(purpose):
            for _ in range(min(len(left) // 2, len(left) if most is None else most - len(given))):
                given.append((left.pop(), taker))
        return given

    def give(self, taker: int, run: int, job: Job | Turn, operands: Values) -> tuple[int, int]:
        """Hand a block out: a ticket for its results."""
        self._tickets += 1
        self.wire.results[taker, self._tickets] = None
        self.wire.post(taker, (JOB, self.wire.epoch, self._tickets, run, job, packed({0: operands})))
        self.bytes += sum(x.nbytes for x in operands.values())
        self.blocks += 1
        return taker, self._tickets

    def collect(self, ticket: tuple[int, int], epoch: int, run: int) -> Values | None:
        """Wait for results; None if the other one could not compute them."""
        while (found := self.wire.results.get(ticket)) is None:
            if not self.wire.waits_for(ticket[0], epoch, run):
                raise PeerFailed
            if not self.wire.do_jobs():  # two may wait for each other
                self.wire.progress()
        del self.wire.results[ticket]
        if not found:
            return None
        made: Values = unpacked(found)[0]
        self.bytes += sum(x.nbytes for x in made.values())
        return made

    # -- for those who are idle ---------------------------------------------------------------------------------------

    def open(self, run: int, loop: int, turn: Callable[[Turn, Callable[[Any, ND], None]], Values]) -> None:
        """This process has had its turns of a loop: `turn` takes those of others, and sends parts of what it makes."""
        self._turn, self.wire.purpose, self.wire.helps = turn, (run, loop), self.help

    def close(self) -> None:
        """It has turns of its own again, or the run is over."""
        self._turn = self.wire.keeps = None
        self.wire.rest_no_more()

    def help(self, who: int, epoch: int, ticket: int, run: int, job: Job | Turn, pieces: list[ND]) -> None:
        """Compute a block for another process, and send back what it makes.

        Nothing, if that fails: whoever has the block then fails in the same way, and says so to the driver. Nor if the
        run was given up meanwhile: many blocks may be here, one after the other.
        """

        def send(where: Any, part: ND) -> None:
            self.wire.post(who, (PART, epoch, ticket, where, flat([part])))

        try:
            self.wire.look(epoch, run)
            made = self._made(job, pieces) if isinstance(job, Job) else self._taken(job, send)
        except Exception:
            made = []
        with suppress(PeerLost):  # whoever waits for it is told by the driver
            self.wire.post(who, (DONE, epoch, ticket, made))

    def _taken(self, job: Turn, send: Callable[[Any, ND], None]) -> list[ND]:
        assert self._turn is not None and (job.run, job.loop) == self.wire.purpose, "of a run that was given up"
        return packed({0: self._turn(job, send)})

    def _made(self, job: Job, pieces: list[ND]) -> list[ND]:
        assert self.plans is not None
        plan = self.plans[job.number]
        step = step_of(plan, job)
        key = (job.number, job.step, job.inner, job.backend)
        if key not in self._runners:
            self._runners[key] = runner([step], job.backend)
        values: list[Any] = [None] * len(plan.specs)
        for pos, x in unpacked(pieces)[0].items():
            values[pos] = x
        self._runners[key].run(nodes_of(plan, job.block, job.consts), values, free=False)
        return packed({0: {p: np.asarray(values[p]) for p in makes(step)}})
