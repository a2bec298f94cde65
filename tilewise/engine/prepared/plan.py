"""A plan as one worker knows it: what is the same in every run, worked out once. In: a plan. Out: steps, boxes, sizes.

Small steps cost what it takes to look such things up, so they are looked up here.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tilewise.engine.device import StepRunner, runner
from tilewise.engine.pieces import held_at
from tilewise.engine.rounds import Move, Round, Run
from tilewise.ir.reductions import Reduction
from tilewise.layout import DRIVER, Box, Layout, OnDriver, Stored, blocked, dims, place, reduction, shards, size
from tilewise.plan.exchanges import Exchanges
from tilewise.records import dataclass
from tilewise.stage.steps import Pass, Step, Tiled, View, makes, reads
from tilewise.store import pool
from tilewise.store.base import within

ND = np.ndarray[Any, Any]
Index = tuple[Any, ...]
PEAKS_KEPT = 64  # of a plan
Sizes = dict[int, int]  # bytes by block (-1: of what the worker has once)


@dataclass(frozen=True, eq=False)
class WorkerStep:
    """A step on the blocks of a worker."""

    step: Step
    runner: StepRunner
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    reserves: tuple[tuple[int, Sizes], ...]
    nothing: frozenset[int]  # blocks that have no elements of a result, or for a partial one
    blockwise: bool
    inner: tuple[WorkerStep, ...] = ()  # what runs in the place of tiles, where some pass has nothing to do
    frees: tuple[int, ...] = ()
    once: Once | None = None  # where it runs once, which needs no more than this

    @cached_property
    def made_bytes(self) -> int:
        """Bytes of all that it reserves."""
        return sum(nbytes for _, sizes in self.reserves for nbytes in sizes.values())


class Once(NamedTuple):
    """What a step that runs once on a worker reads and makes: on its only block, or for all of them."""

    block: int  # whose sizes it has
    at: int  # the block of what it reads (-1: what the worker has once)
    makes: tuple[tuple[int, int], ...]  # values, and of which block they are (-1: the worker has it once)


class Incoming(NamedTuple):
    """A piece that a worker puts into its place."""

    block: int  # of the result
    at: Index  # in the block
    box: Box  # in the value's own coordinates
    sender: int  # DRIVER for what the driver scatters; perhaps this worker
    crosses: bool
    src_block: int  # of what is here already
    src_index: Index


@dataclass(frozen=True, eq=False)
class Join:
    """How a worker puts a value together."""

    sizes: Sizes
    targets: tuple[tuple[int, tuple[int, ...]], ...]  # blocks and their dims
    pieces: tuple[Incoming, ...]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A plan as a worker keeps it."""

    plan: Exchanges
    rounds: tuple[Round, ...]
    worker: int
    ran: set[tuple[int, int]] = field(default_factory=set)  # steps that were run before: their code is there
    scripts: dict[str, Any] = field(default_factory=dict)  # by backend (replay.py); None: it must be run as ever
    peaks: dict[Any, int] = field(default_factory=dict)  # what a run takes up, by how its leaves lie
    _steps: dict[tuple[int, str], tuple[WorkerStep, ...]] = field(default_factory=dict)
    _joins: dict[Move, Join] = field(default_factory=dict)
    _cuts: dict[tuple[Move, int], tuple[tuple[int, Index], ...]] = field(default_factory=dict)

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The worker's blocks."""
        return tuple(self.plan.mesh.blocks_of(self.worker))

    @cached_property
    def senders(self) -> list[list[int]]:
        """By round: the others that send something for it."""
        return [r.senders(self.worker, self.plan.mesh.workers) for r in self.rounds]

    @cached_property
    def receivers(self) -> list[list[int]]:
        """By round: the others to whom something goes at its end."""
        return [r.receivers(self.worker, self.plan.mesh.workers) for r in self.rounds]

    def remember_peak(self, lies: Any, nbytes: int) -> None:
        """What a run took up beside the blocks that were there before it."""
        if len(self.peaks) >= PEAKS_KEPT:
            self.peaks.clear()
        self.peaks[lies] = nbytes

    # -- steps ----------------------------------------------------------------------------------------------------

    def steps(self, run: Run, backend: str) -> tuple[WorkerStep, ...]:
        """The steps between two exchanges."""
        found = self._steps.get((run.first, backend))
        if found is None:
            steps = self.plan.steps[run.first : run.last]
            found = self._steps[run.first, backend] = tuple(self._step(s, backend) for s in steps)
        return found

    def _step(self, step: Step, backend: str) -> WorkerStep:
        plan = self.plan
        nothing = frozenset(b for b in self.blocks if has_nothing(plan, step, b))
        inner: tuple[WorkerStep, ...] = ()
        if isinstance(step, Tiled) and any(_some_have_nothing(plan, step, b) for b in self.blocks):
            # What is nothing to one pass may be something to another: to a slice that lies on other blocks, say.
            inner = tuple(self._step(s, backend) for s in step.steps)
        made = () if type(step) is View else makes(step)
        reserves = tuple((p, self._sizes(plan.layouts[p], plan.specs[p].shape, plan.specs[p].dtype)) for p in made)
        inside = {x for s in step.steps for x in makes(s)}.difference(step.outs) if isinstance(step, Tiled) else ()
        blockwise = plan.blockwise(step)
        return WorkerStep(
            step,
            runner([step], backend),
            reads(step),
            makes(step),
            reserves,
            nothing,
            blockwise,
            inner,
            (*(inside if inner else ()), *step.frees),
            None if inner or nothing else self._once(makes(step), blockwise),
        )

    def _once(self, made: tuple[int, ...], blockwise: bool) -> Once | None:
        """A step that runs once; None if there are several blocks to run it on."""
        first = self.blocks[0]
        if not blockwise:
            return Once(first, -1, tuple((pos, -1) for pos in made))
        if len(self.blocks) > 1:
            return None
        return Once(first, first, tuple((pos, first if blocked(self.plan.layouts[pos]) else -1) for pos in made))

    # -- exchanges ------------------------------------------------------------------------------------------------

    def cut(self, move: Move, receiver: int) -> tuple[tuple[int, Index], ...]:
        """The blocks here, and where in them, that go to another worker."""
        found = self._cuts.get((move, receiver))
        if found is None:
            pieces = move.between(self.worker, receiver)
            found = self._cuts[move, receiver] = tuple(
                (_number(p.src_block), self._index(move, move.exchange.src, p.src_block, p.box)) for p in pieces
            )
        return found

    def join(self, move: Move) -> Join:
        """How the blocks of an exchange's result come about here."""
        found = self._joins.get(move)
        if found is None:
            found = self._joins[move] = self._join(move)
        return found

    def _join(self, move: Move) -> Join:
        exchange, me = move.exchange, self.worker
        dst, shape = exchange.dst, exchange.shape
        pieces = []
        for p in move.arriving(me):
            sender = DRIVER if move.scatter else place(p.src_worker)
            here = sender == me and not isinstance(exchange.src, Stored)
            index = self._index(move, dst, p.dst_block, p.box)
            local = self._index(move, exchange.src, p.src_block, p.box) if here else ()
            pieces.append(Incoming(_number(p.dst_block), index, p.box, sender, p.crosses, _number(p.src_block), local))
        boxes = [(b, held_at(dst, shape, self.plan.mesh, me, b)) for b in self._targets(dst)]
        targets = tuple((b, dims(box)) for b, box in boxes)
        return Join(self._sizes(dst, shape, move.dtype), targets, tuple(pieces))

    def _index(self, move: Move, layout: Layout, block: int | None, box: Box) -> Index:
        held = held_at(layout, move.exchange.shape, self.plan.mesh, self.worker, _number(block))
        return within(box, held)

    def _sizes(self, layout: Layout, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Sizes:
        """The bytes of each block of a value here."""
        return {
            block: size(held_at(layout, shape, self.plan.mesh, self.worker, block)) * dtype.itemsize
            for block in self._targets(layout)
        }

    def _targets(self, layout: Layout) -> tuple[int, ...]:
        if blocked(layout):
            return self.blocks
        return () if isinstance(layout, OnDriver) and self.worker else (-1,)


def _number(block: int | None) -> int:
    return -1 if block is None else block


def _some_have_nothing(plan: Exchanges, step: Tiled, block: int) -> bool:
    """Whether a block has elements for some of the passes that share tiles, and none for others."""
    return len({has_nothing(plan, inner, block) for inner in step.steps}) > 1


def has_nothing(plan: Exchanges, step: Step, block: int) -> bool:
    """Whether a block has no elements of a result, or for a partial one (passes that share tiles: all of them)."""
    if isinstance(step, Tiled):
        return all(has_nothing(plan, inner, block) for inner in step.steps)
    layouts, nodes, made = plan.layouts, plan.nodes(block), makes(step)
    if not any(reduction(layouts[p]) for p in made):
        return all(0 in nodes[p].dims and 0 not in plan.specs[p].shape for p in made)
    seen = (*reads(step), *((step.space,) if isinstance(step, Pass) else ()))
    return any(nodes[p].dims[cut.axis] == 0 for p in seen for cut in shards(layouts[p]))


def nothing_of(plan: Exchanges, step: WorkerStep, block: int) -> dict[int, ND]:
    """What a block without elements stores: nothing, and contributions that change nothing."""
    out: dict[int, ND] = {}
    for p in step.makes:
        n = plan.nodes(block)[p]
        whole = reduction(plan.layouts[p]) is None
        out[p] = pool.empty(n.dims, n.dtype, n.order) if whole else neutral(plan, p, block)
    return out


def neutral(plan: Exchanges, pos: int, block: int) -> ND:
    """A contribution that changes nothing."""
    n, by = plan.nodes(block)[pos], reduction_of(plan, pos)
    empty = any(0 in plan.specs[p].shape for p in plan.specs[pos].inputs)  # no block has any
    return np.full(n.dims, by.identity(n.dtype) if empty else by.neutral(n.dtype), n.dtype)


def reduction_of(plan: Exchanges, pos: int) -> Reduction:
    """The reduction by which the blocks of a worker become one contribution."""
    op = reduction(plan.layouts[pos])
    assert op is not None, "what is held once is computed once, or a contribution"
    return op
