"""A worker: owns blocks, runs rounds of plans on them. In: plans, keys, pieces from others. Out: blocks in its store.

The same class runs in one process (virtual) and in actors (Ray). It knows nothing of other workers but the pieces they
send, and counts the bytes of those.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from tilewise.backend import host_backend
from tilewise.engine.collectives import Participant
from tilewise.engine.halo import halo_blocks, held_at, part_at, piece_of
from tilewise.engine.held import Held, name_of
from tilewise.engine.rounds import Move, Round, Run, Shuffle, rounds
from tilewise.engine.run import Runner
from tilewise.ir.reductions import Combining, Reduction
from tilewise.layout import (
    DRIVER,
    Box,
    Exchange,
    Layout,
    Mesh,
    OnDriver,
    Stored,
    blocked,
    box_size,
    dims,
    overlap,
    place,
    reduction,
    shards,
    size,
)
from tilewise.ops.collectives import Parts
from tilewise.ops.const import Const
from tilewise.plan.blocks import BlockNode
from tilewise.plan.exchanges import Exchanges
from tilewise.stage.steps import Pass, Step, Tiled, View, makes, reads
from tilewise.store import pool
from tilewise.store.base import Source, read_box
from tilewise.store.blocks import MemoryBlocks

ND = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Start:
    """What begins a plan on a worker."""

    number: int
    leaves: tuple[int | Source | None, ...]  # keys in the store; sources to read from; None: still on the driver
    consts: tuple[Any, ...]
    keys: tuple[int, ...]  # what its results are to be called
    native: bool
    gone: tuple[int, ...]  # keys that nobody needs any more


class Report(NamedTuple):
    """What a worker did in a round, or all workers in a plan."""

    network_bytes: int  # that came from elsewhere
    read_bytes: int  # from sources
    peak_bytes: int  # the most that its blocks took up at once

    @staticmethod
    def all_of(reports: Sequence[Report]) -> Report:
        """What several did together; the peak is that of the one with the highest."""
        network, read, peak = zip(*reports, strict=True)
        return Report(sum(network), sum(read), max(peak))


@dataclass(frozen=True)
class Failure:
    """Stands where a result or pieces should be. Without an error: somebody else failed."""

    error: Exception | None


@dataclass(frozen=True)
class Learned:
    """A plan as a worker keeps it."""

    plan: Exchanges
    rounds: tuple[Round, ...]
    runners: dict[tuple[str, bool], Runner] = field(default_factory=dict)
    sizes: dict[int, dict[int, int]] = field(default_factory=dict)  # of values: bytes of each block of this worker's

    def runner(self, step: Step, name: str, native: bool) -> Runner:
        """What runs a step of the plan, which has some name."""
        found = self.runners.get((name, native))
        if found is None:
            found = self.runners[name, native] = Runner([step], host_backend(native))
        return found


class Worker:
    """Blocks by key, the plans it has learned, and the one under way."""

    def __init__(self, index: int, mesh: Mesh, memory: int | None = None) -> None:
        self.index = index
        self.mesh = mesh
        self.memory = memory
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.blocks = MemoryBlocks(self.memory, f"worker {self.index}", name_of)
        self.store = Held(self.blocks, "stored value")
        self.values = Held(self.blocks, "value")  # of the plan under way
        self.sources: dict[int, Source] = {}
        self.collectives: dict[int, Participant] = {}
        self.plans: dict[int, Learned] = {}
        self.read_bytes = 0  # in the round under way
        self.now: tuple[Start, Learned] | None = None  # None also after a failure: the rest of the plan is skipped

    # -- the life of a plan ---------------------------------------------------------------------------------------

    def learn(self, number: int, plan: Exchanges) -> None:
        """Keep a plan under a number."""
        self.plans[number] = Learned(plan, rounds(plan))

    def forget(self, numbers: Sequence[int]) -> None:
        """Let go of plans."""
        for n in numbers:
            self.plans.pop(n, None)

    def drop(self, keys: Sequence[int]) -> None:
        """Let go of stored values."""
        for k in keys:
            self.store.drop(k)

    def advance(self, index: int, outgoing: int, start: Start | None, *arrived: Any) -> Any:
        """Do one round of the plan: (a report, pieces for each receiver...).

        `arrived` has a list of pieces per scatter, then per sender. A failure is an answer like others, so that the
        workers stay in step: whoever meets one skips the rest of the plan, and nothing is stored.
        """
        if start is not None:
            self._begin(start)
        try:
            if self.now is None or any(isinstance(a, Failure) for a in arrived):
                raise _Skipped
            self.read_bytes = 0
            count, *pieces = self._round(self.now[1], index, list(arrived))
            answer: tuple[Any, ...] = (Report(count, self.read_bytes, self.blocks.peak_bytes), *pieces)
            if index == len(self.now[1].rounds) - 1:
                self._finish(self.now[1].plan, self.now[0].keys)
        except Exception as error:
            self._stop()
            skipped = Failure(None)
            answer = (skipped if isinstance(error, _Skipped) else Failure(portable(error)), *[skipped] * outgoing)
        return answer if outgoing else answer[0]

    def _stop(self) -> None:
        """Forget the plan under way."""
        self.now, self.collectives, self.sources = None, {}, {}
        self.values.clear()

    def _begin(self, start: Start) -> None:
        self.drop(start.gone)
        learned = self.plans[start.number]
        plan = learned.plan
        self._stop()
        self.blocks.reset_peak()
        self.now = start, learned
        for pos, leaf in zip(plan.leaves, start.leaves, strict=True):
            if isinstance(leaf, Source):
                self.sources[pos] = leaf
            elif leaf is not None:
                self.values.put(pos, self.store[leaf])
        for pos, value in zip(plan.consts, start.consts, strict=True):
            self.values.put_constant(pos, {-1: np.asarray(value)})

    def _finish(self, plan: Exchanges, keys: Sequence[int]) -> None:
        for pos, key in zip(plan.wanted, keys, strict=True):
            self.store.put(key, self.values[pos])
        self._stop()

    def _round(self, learned: Learned, index: int, arrived: list[Any]) -> tuple[Any, ...]:
        this, p = learned.rounds[index], self.mesh.workers
        count = 0
        scattered = {m: arrived.pop(0) for m in this.scatters if m.arriving(self.index)}
        waiting = {v: list(pieces) for v, pieces in zip(this.senders(self.index, p), arrived, strict=True)}
        for move in this.joins:
            count += self._join(move, waiting)
            self._free(move.frees)
        for act in this.body:
            if isinstance(act, Move):
                count += self._join(act, {DRIVER: list(scattered.get(act, []))} if act.scatter else {})
                self._free(act.frees)
            else:
                assert isinstance(act, Run), "a shuffle always crosses"
                self._run(learned, act.first, act.last)
        receivers = this.receivers(self.index, p)
        return (count, *([piece for m in this.cuts for piece in self._cut(m, v)] for v in receivers))

    def _free(self, positions: Sequence[int]) -> None:
        for x in positions:
            self.values.drop(x)

    # -- stages ---------------------------------------------------------------------------------------------------

    def _run(self, learned: Learned, first: int, last: int) -> None:
        """Run steps [first, last) on every block."""
        for i in range(first, last):
            step = learned.plan.steps[i]
            self._each_block(learned, step, str(i))
            self._free(step.frees)

    def _each_block(self, learned: Learned, step: Step, name: str) -> None:
        """One step, on all blocks of this worker, or once where they share its result."""
        plan, blocks = learned.plan, self.mesh.blocks_of(self.index)
        assert self.now is not None
        nothing = {block for block in blocks if self._contributes_nothing(plan, step, block)}
        if nothing and isinstance(step, Tiled):  # what is nothing to one pass may be something to another
            for k, inner in enumerate(step.steps):
                self._each_block(learned, inner, f"{name}.{k}")
            inside = {x for inner in step.steps for x in makes(inner)}
            self._free(tuple(inside.difference(step.outs)))
            return
        runner = learned.runner(step, name, self.now[0].native)
        for pos in () if type(step) is View else makes(step):
            sizes = learned.sizes.get(pos)
            if sizes is None:
                spec = plan.specs[pos]
                sizes = learned.sizes[pos] = self._sizes(plan.layouts[pos], spec.shape, spec.dtype)
            self.values.reserve(pos, sizes)
        pins = self.values.pin(reads(step))
        try:
            made = self._blocks(plan, step, runner, nothing)
        finally:
            self.values.unpin(pins)
        for pos, parts in made.items():
            self.values.put(pos, parts)

    def _sizes(self, layout: Layout, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[int, int]:
        """The bytes of each block of a value here."""
        return {
            block: size(held_at(layout, shape, self.mesh, self.index, block)) * dtype.itemsize
            for block in self._targets(layout)
        }

    def _blocks(self, plan: Exchanges, step: Step, runner: Runner, nothing: set[int]) -> dict[int, Parts]:
        """What a step makes; of the blocks in `nothing`, what changes nothing."""
        blocks = self.mesh.blocks_of(self.index)
        if not plan.blockwise(step):
            block = blocks[0]
            once = self._nothing(plan, step, block) if nothing else self._step(plan, step, runner, block, -1)
            return {pos: {-1: value} for pos, value in once.items()}
        out: dict[int, Parts] = {pos: {} for pos in makes(step)}
        trees: dict[int, Combining] = {}
        for block in blocks:
            none = block in nothing
            made = self._nothing(plan, step, block) if none else self._step(plan, step, runner, block, block)
            for pos, value in made.items():
                if blocked(plan.layouts[pos]):
                    out[pos][block] = value
                else:
                    tree = trees.get(pos) or trees.setdefault(pos, Combining(_reduction(plan, pos)))
                    tree.add(None if none else value)
        for pos, tree in trees.items():
            found = tree.result()
            if found is None:
                found = self._neutral(plan, pos, blocks[0])
            out[pos][-1] = np.asarray(found)
        return out

    def _contributes_nothing(self, plan: Exchanges, step: Step, block: int) -> bool:
        """Whether a block has no elements for a partial result (or for one of those that share tiles)."""
        if isinstance(step, Tiled):
            return any(self._contributes_nothing(plan, inner, block) for inner in step.steps)
        if not any(reduction(plan.layouts[p]) for p in makes(step)):
            return False
        seen = (*reads(step), *((step.space,) if isinstance(step, Pass) else ()))
        nodes = plan.nodes(block)
        return any(nodes[p].dims[cut.axis] == 0 for p in seen for cut in shards(plan.layouts[p]))

    def _nothing(self, plan: Exchanges, step: Step, block: int) -> dict[int, ND]:
        """What a block without elements stores: nothing, and contributions that change nothing."""
        out: dict[int, ND] = {}
        for p in makes(step):
            n = plan.nodes(block)[p]
            whole = reduction(plan.layouts[p]) is None
            out[p] = pool.empty(n.dims, n.dtype, n.order) if whole else self._neutral(plan, p, block)
        return out

    def _neutral(self, plan: Exchanges, pos: int, block: int) -> ND:
        """A contribution that changes nothing."""
        n = plan.nodes(block)[pos]
        return np.full(n.dims, _reduction(plan, pos).identity(n.dtype), n.dtype)

    def _step(self, plan: Exchanges, step: Step, runner: Runner, block: int, at: int) -> dict[int, ND]:
        """Run one step for one block (at = -1: for the worker)."""
        values: list[Any] = [None] * len(plan.specs)
        for p in reads(step):
            parts = self.values[p]
            values[p] = parts[at] if at in parts else parts[-1]
        runner.run(self._nodes(plan, block), values, free=False)
        return {p: values[p] for p in makes(step)}

    def _nodes(self, plan: Exchanges, block: int) -> Sequence[BlockNode]:
        """The graph as a block sees it, with the numbers of this run where a step looks at them."""
        nodes = plan.nodes(block)
        if not plan.stages.centred:
            return nodes
        given = list(nodes)
        for pos in plan.consts:
            number: Any = self.values[pos][-1][()]
            given[pos] = replace(given[pos], op=Const(number))
        return given

    # -- exchanges ------------------------------------------------------------------------------------------------

    def _cut(self, move: Move | Shuffle, receiver: int) -> list[ND]:
        """The pieces of a value that go to another worker."""
        if isinstance(move, Shuffle):
            if move.target not in self.collectives:
                self.collectives[move.target] = Participant(move.call, self.index, [self.values[x] for x in move.needs])
            return self.collectives[move.target].outbox[receiver]
        source = self.values[move.pos]
        return [piece_of(source, move.exchange, self.mesh, p) for p in move.between(self.index, receiver)]

    def _join(self, move: Move | Shuffle, waiting: dict[int, list[ND]]) -> int:
        """Assemble the blocks of a value from pieces here and elsewhere; how many bytes came from elsewhere."""
        if isinstance(move, Shuffle):
            participant = self.collectives[move.target]
            arrived = {w: [pieces.pop(0) for _ in range(move.width)] for w, pieces in waiting.items()}
            participant.receive(
                [participant.outbox[w] if w == self.index else arrived[w] for w in range(self.mesh.workers)]
            )
            if participant.result is not None:
                self.values.put(move.target, participant.result)
                del self.collectives[move.target]
            return sum(piece.nbytes for pieces in arrived.values() for piece in pieces)
        exchange = move.exchange
        source = {} if move.scatter or isinstance(exchange.src, Stored) else self.values.get(move.pos, {})
        assert self.now is not None
        known = self.now[1].sizes
        if move.target not in known:
            known[move.target] = self._sizes(exchange.dst, exchange.shape, move.dtype)
        self.values.reserve(move.target, known[move.target])
        halo = halo_blocks(source, exchange, self.mesh.blocks_of(self.index))
        parts: Parts = {} if halo is None else halo
        if halo is None:
            for block in self._targets(exchange.dst):
                box = held_at(exchange.dst, exchange.shape, self.mesh, self.index, block)
                parts[block] = pool.empty(dims(box), move.dtype, move.order)
        reduce = exchange.reduces
        parts_of: dict[tuple[int, Box], list[ND | None]] = {}  # contributions to a box of a block, in their order
        count = 0
        for piece in move.arriving(self.index):
            block = -1 if piece.dst_block is None else piece.dst_block
            view = self._place(parts, exchange, block, piece.box)
            if isinstance(exchange.src, Stored):
                read_box(self.sources[move.pos], piece.box, view)
                self.read_bytes += view.nbytes
                continue
            if move.scatter or place(piece.src_worker) != self.index:
                data = waiting[DRIVER if move.scatter else place(piece.src_worker)].pop(0)
                count += data.nbytes if piece.crosses else 0
            elif halo is not None and piece.src_block == piece.dst_block:
                continue  # it is there; what comes from other blocks of this worker is not
            else:
                data = piece_of(source, exchange, self.mesh, piece)
            if reduce is None:
                view[...] = data
            else:
                parts_of.setdefault((block, piece.box), []).append(data)
        for (block, box), contributions in parts_of.items():
            assert reduce is not None
            reduce.combined(contributions, self._place(parts, exchange, block, box))
        self.values.put(move.target, parts)
        return count

    def _place(self, parts: Parts, exchange: Exchange, block: int, box: Box) -> ND:
        """Where a box of a block (-1: of what the worker has once) goes."""
        return part_at(parts[block], held_at(exchange.dst, exchange.shape, self.mesh, self.index, block), box)

    def _targets(self, layout: Layout) -> list[int]:
        if blocked(layout):
            return list(self.mesh.blocks_of(self.index))
        return [] if isinstance(layout, OnDriver) and self.index else [-1]

    # -- with the driver ------------------------------------------------------------------------------------

    def stored(self) -> list[int]:
        """The keys of stored values."""
        return sorted(self.store)

    def cut_stored(self, key: int, exchange: Exchange, box: Box) -> list[ND]:
        """Pieces of a box of a stored value for the driver."""
        source = self.store[key]
        mine = [p for p in exchange.pieces if p.src_worker == self.index]
        cut = [replace(p, box=both) for p in mine if box_size(both := overlap(p.box, box))]
        return [piece_of(source, exchange, self.mesh, p) for p in cut]


class _Skipped(Exception):
    """Another worker, or an earlier round, has failed."""


def portable(error: Exception) -> Exception:
    """The error, or one that says the same where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        other = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            other.add_note(note)
        return other


def _reduction(plan: Exchanges, pos: int) -> Reduction:
    """The reduction by which the blocks of a worker become one contribution."""
    op = reduction(plan.layouts[pos])
    assert op is not None, "what is held once is computed once, or a contribution"
    return op
