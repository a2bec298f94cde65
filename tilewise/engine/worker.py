"""A worker: owns blocks, runs rounds of plans on them. In: plans, keys, pieces from others. Out: blocks in its store.

The same class runs in one process (virtual) and in actors (Ray), in the hands of a host (host.py). It knows nothing of
other workers but the pieces they send, and counts the bytes of those. Where it runs in the driver's process, Ctrl-C
comes while a step computes, not while its blocks are put in order (interrupts.py).
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise import events
from tilewise.engine.collectives import Participant
from tilewise.engine.held import Held, name_of
from tilewise.engine.messages import Start
from tilewise.engine.network.transport import PeerFailed
from tilewise.engine.pieces import halo_blocks, piece_of
from tilewise.engine.prepared.plan import Once, Prepared, WorkerStep, neutral, nothing_of, reduction_of
from tilewise.engine.prepared.replay import Again, again, repeats
from tilewise.engine.prepared.straight import Fresh
from tilewise.engine.rounds import Move, Run, Shuffle
from tilewise.engine.stealing import Job, Sharing, nodes_of
from tilewise.interrupts import allowed
from tilewise.ir.reductions import Combining
from tilewise.layout import (
    DRIVER,
    Box,
    Exchange,
    Mesh,
    Stored,
    blocked,
    box_size,
)
from tilewise.ops.traits.collectives import Parts
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.shares import Shares
from tilewise.stage.steps import View
from tilewise.store import pool
from tilewise.store.base import Sink, Source, read_box
from tilewise.store.blocks import MemoryBlocks

ND = np.ndarray[Any, Any]


class Worker:
    """Blocks by key, the plans it has learned, and the one under way."""

    def __init__(self, index: int, mesh: Mesh, memory: int | None = None) -> None:
        self.index = index
        self.mesh = mesh
        self.memory = memory
        self.blocks = MemoryBlocks(memory, f"worker {index}", name_of)
        self.store = Held(self.blocks, "stored value")
        self.fresh = Fresh(self.store)
        self.values = Held(self.blocks, "value")  # of the run under way
        self.sources: dict[int, Source] = {}
        self.collectives: dict[int, Participant] = {}
        self.plans: dict[int, Prepared | Shares] = {}
        self.network_bytes = self.read_bytes = 0  # of the run under way
        self.scattered: list[list[ND]] = []
        self.now: tuple[Start, Prepared] | None = None
        self.reached: Callable[[int, int, int], None] | None = None  # told after each step, where somebody is far away
        self.sharing: Sharing | None = None  # with other processes, where workers have several blocks
        self.lends: Sharing | None = None  # the same where blocks take turns
        self.again: Again | None = None  # the run under way, where it is one by script
        self._lies: tuple[Any, ...] | None = None  # how the leaves of the run lie, if another one may be
        self._held_before = 0  # bytes of blocks when a run begins

    # -- a run of a plan ------------------------------------------------------------------------------------------

    def drop(self, keys: Sequence[int]) -> None:
        """Let go of stored values."""
        self.fresh.drop(keys)

    def begin(self, start: Start, scattered: list[list[ND]]) -> None:
        """Start a run. `scattered` has this worker's pieces of the driver's arrays, scatter by scatter; each goes."""
        self.drop(start.gone)
        learned = self.plans[start.number]
        assert isinstance(learned, Prepared), "blocks in turn are the business of engine/stream"
        plan = learned.plan
        self.blocks.reset_peak()
        self.now = start, learned
        self.network_bytes = self.read_bytes = 0
        self.again = self._again(start, learned)
        if self.again is not None:
            return
        self.scattered = scattered
        for pos, leaf in zip(plan.leaves, start.leaves, strict=True):
            if isinstance(leaf, Source | bytes):
                self.sources[pos] = pickle.loads(leaf) if isinstance(leaf, bytes) else leaf
            elif leaf is not None:
                if leaf not in self.store:
                    raise PeerFailed  # the run that should have made it failed
                self.values.put_constant(pos, self.store[leaf])  # what is gone went before
        for pos, value in zip(plan.consts, start.consts, strict=True):
            self.values.put_constant(pos, {-1: np.asarray(value)})

    def _again(self, start: Start, learned: Prepared) -> Again | None:
        """The run by script, if the plan has run before on leaves that lie so."""
        self._lies, self._held_before = None, self.blocks.reserved_bytes
        if (
            self.memory is not None
            or self.sharing is not None
            or events.listeners
            or not repeats(learned, start.backend)
        ):
            return None
        lies = self.fresh.lie(start.backend, start.leaves)
        if lies is None:
            return None
        leaves, self._lies = lies
        peak = learned.peaks.get(self._lies)
        return None if peak is None else again(learned, start.backend, leaves, start.consts, peak)

    def senders(self, index: int) -> list[int]:
        """The others that send something for a round."""
        assert self.now is not None
        return self.now[1].senders[index]

    def advance(self, index: int, arrived: Mapping[int, list[ND]]) -> Iterable[tuple[int, list[ND]]]:
        """One round: join what arrived (pieces go as they are put in place), run, give the pieces for each receiver."""
        again = self.again
        if again is None:
            return self._advance(index, arrived)
        self.network_bytes += again.advance(index, arrived, self.reached, self.network_bytes)
        return again.pieces(index)

    def _advance(self, index: int, arrived: Mapping[int, list[ND]]) -> Iterator[tuple[int, list[ND]]]:
        assert self.now is not None
        learned = self.now[1]
        this = learned.rounds[index]
        for move in this.joins:
            self._join(move, arrived)
        for act in this.body:
            if isinstance(act, Move):
                mine = act.scatter and act.arriving(self.index)
                self._join(act, {DRIVER: self.scattered.pop(0)} if mine else {})
            else:
                assert isinstance(act, Run), "a shuffle always crosses"
                self._run(learned, act, self.now[0].backend)
        for v in learned.receivers[index]:
            yield v, [piece for m in this.cuts for piece in self._cut(m, v)]

    def finish(self) -> tuple[int, int, int]:
        """Keep the results: bytes that came from other workers, that were read, and that blocks took up at most."""
        assert self.now is not None
        start, learned = self.now
        if self.again is not None:
            self.again.keep(start.keys, self.store)
            return self.network_bytes, 0, self._held_before + self.again.peak_bytes
        for pos, key in zip(learned.plan.wanted, start.keys, strict=True):
            self.store.put(key, self.values[pos])
        peak = self.blocks.peak_bytes
        if self._lies is not None:
            learned.remember_peak(self._lies, peak - self._held_before)
        self.tell_peak(peak)
        return self.network_bytes, self.read_bytes, peak

    def tell_peak(self, nbytes: int) -> None:
        """Say how much blocks took up at most, to those who listen."""
        if events.listeners:
            now = time.perf_counter()
            events.emit(events.Event("memory", "blocks of a worker", now, now, nbytes, self.index))

    def stop(self) -> None:
        """Forget the run under way."""
        self.now, self.collectives, self.sources, self.scattered, self.again = None, {}, {}, [], None
        self.values.clear()

    def _free(self, positions: Sequence[int]) -> None:
        for x in positions:
            self.values.drop(x)

    # -- stages ---------------------------------------------------------------------------------------------------

    def _run(self, learned: Prepared, run: Run, backend: str) -> None:
        """Run steps on every block."""
        for k, step in enumerate(learned.steps(run, backend)):
            self._each_block(learned, step, run.first + k)
            if self.reached is not None:
                self.reached(run.first + k + 1, len(learned.plan.steps), self.network_bytes + self.read_bytes)

    def _each_block(self, learned: Prepared, step: WorkerStep, index: int, inner: int = -1) -> None:
        """One step, on all blocks of this worker, or once where they share its result."""
        values = self.values
        if step.once is not None and self.sharing is None:
            self._only(learned.plan, step, step.once)
        elif step.inner:
            for k, part in enumerate(step.inner):
                self._each_block(learned, part, index, k)
        else:
            for pos, sizes in step.reserves:
                values.reserve(pos, sizes)
            pins = values.pin(step.reads)
            try:
                made = self._blocks(learned, step, index, inner)
            finally:
                values.unpin(pins)
            for pos, parts in made.items():
                values.put(pos, parts)
        for x in step.frees:
            values.drop(x)

    def _only(self, plan: Exchanges, step: WorkerStep, once: Once) -> None:
        """A step that runs once, as most do: the same with fewer words."""
        assert self.now is not None
        held, at = self.values, once.at
        view = step.step
        if type(view) is View:  # which a runner would do no differently
            parts = held[view.input]
            shown = plan.nodes(once.block)[view.pos].op.numpy(parts[at] if at in parts else parts[-1])
            held.put(view.pos, {once.makes[0][1]: shown})
            return
        if self.memory is None:
            self.blocks.expect(step.made_bytes)  # nothing is refused
        else:
            for pos, sizes in step.reserves:
                held.reserve(pos, sizes)
        values: list[Any] = [None] * len(plan.specs)
        for p in step.reads:
            parts = held[p]
            values[p] = parts[at] if at in parts else parts[-1]
        with allowed():
            step.runner.run(nodes_of(plan, once.block, self.now[0].consts), values, free=False)
        for pos, block in once.makes:
            held.put(pos, {block: values[pos]})

    def _blocks(self, learned: Prepared, step: WorkerStep, index: int, inner: int) -> dict[int, Parts]:
        """What a step makes; of the blocks that have nothing for it, what changes nothing."""
        plan, blocks, nothing = learned.plan, learned.blocks, step.nothing
        if not step.blockwise:
            block = blocks[0]
            once = nothing_of(plan, step, block) if nothing else self._step(plan, step, block, -1)
            return {pos: {-1: value} for pos, value in once.items()}
        out: dict[int, Parts] = {pos: {} for pos in step.makes}
        trees: dict[int, Combining] = {}
        shared = self._shared(learned, step, index, inner) if self.sharing is not None else {}
        for block in blocks:
            none = block in nothing
            if block in shared:
                made = shared.pop(block)
            else:
                made = nothing_of(plan, step, block) if none else self._step(plan, step, block, block)
            for pos, value in made.items():
                if blocked(plan.layouts[pos]):
                    out[pos][block] = value
                else:
                    tree = trees.get(pos) or trees.setdefault(pos, Combining(reduction_of(plan, pos)))
                    tree.add(None if none else value)
        for pos, tree in trees.items():
            found = tree.result()
            if found is None:
                found = neutral(plan, pos, blocks[0])
            out[pos][-1] = np.asarray(found)
        return out

    def _shared(self, learned: Prepared, step: WorkerStep, index: int, inner: int) -> dict[int, dict[int, ND]]:
        """What a step makes of each block, where others that are idle compute some of them."""
        assert self.sharing is not None and self.now is not None
        if type(step.step) is View:
            return {}
        sharing, start, plan, before = self.sharing, self.now[0], learned.plan, self.sharing.bytes
        left = deque(b for b in learned.blocks if b not in step.nothing)
        made: dict[int, dict[int, ND]] = {}
        tickets: dict[int, tuple[int, int]] = {}
        began = time.perf_counter()
        while left:
            block, at = left.popleft(), time.perf_counter()
            made[block] = self._step(plan, step, block, block)
            seconds = time.perf_counter() - at
            if (index, inner) not in learned.ran:
                learned.ran.add((index, inner))
                continue  # it was compiled as well
            nbytes = sum(x.nbytes for x in (*self._operands(step, block).values(), *made[block].values()))
            for other, taker in sharing.hand_out(left, seconds, nbytes):
                job = Job(start.number, index, inner, other, start.backend, start.consts)
                tickets[other] = sharing.give(taker, start.run, job, self._operands(step, other))
        for other, ticket in tickets.items():
            found = sharing.collect(ticket, start.epoch, start.run)
            made[other] = self._step(plan, step, other, other) if found is None else found
        if tickets and events.listeners:
            now, moved = time.perf_counter(), sharing.bytes - before
            events.emit(events.Event("stolen", f"{len(tickets)} blocks", began, now, moved, self.index))
        return made

    def _operands(self, step: WorkerStep, at: int) -> dict[int, ND]:
        """What a step reads of a block."""
        held = {p: self.values[p] for p in step.reads}
        return {p: parts[at] if at in parts else parts[-1] for p, parts in held.items()}

    def _step(self, plan: Exchanges, step: WorkerStep, block: int, at: int) -> dict[int, ND]:
        """Run one step for one block (at = -1: for the worker)."""
        assert self.now is not None
        values: list[Any] = [None] * len(plan.specs)
        for p in step.reads:
            parts = self.values[p]
            values[p] = parts[at] if at in parts else parts[-1]
        with allowed():
            step.runner.run(nodes_of(plan, block, self.now[0].consts), values, free=False)
        return {p: values[p] for p in step.makes}

    # -- exchanges ------------------------------------------------------------------------------------------------

    def _cut(self, move: Move | Shuffle, receiver: int) -> list[ND]:
        """The pieces of a value that go to another worker."""
        if isinstance(move, Shuffle):
            if move.target not in self.collectives:
                with allowed():
                    begun = Participant(move.call, self.index, [self.values[x] for x in move.needs])
                self.collectives[move.target] = begun
            return self.collectives[move.target].outbox[receiver]
        assert self.now is not None
        source = self.values[move.pos]
        return [source[block][index] for block, index in self.now[1].cut(move, receiver)]

    def _join(self, move: Move | Shuffle, waiting: Mapping[int, list[ND]]) -> None:
        """Assemble the blocks of a value from pieces here and elsewhere."""
        began, read = (time.perf_counter() if events.listeners else 0.0), self.read_bytes
        count = self._joined(move, waiting)
        self.network_bytes += count
        if events.listeners:
            read = self.read_bytes - read
            kind, moved = ("read", read) if read else ("exchange", count)
            text = "" if move.site is None else f"{move.site[0]}:{move.site[1]}"
            events.emit(events.Event(kind, move.name, began, time.perf_counter(), moved, self.index, text))
        self._free(move.frees)

    def _joined(self, move: Move | Shuffle, waiting: Mapping[int, list[ND]]) -> int:
        """How many bytes came from elsewhere."""
        if isinstance(move, Shuffle):
            participant = self.collectives[move.target]
            arrived = {w: [pieces.pop(0) for _ in range(move.width)] for w, pieces in waiting.items()}
            inbox = [participant.outbox[w] if w == self.index else arrived[w] for w in range(self.mesh.workers)]
            with allowed():
                participant.receive(inbox)
            if participant.result is not None:
                self.values.put(move.target, participant.result)
                del self.collectives[move.target]
            return sum(piece.nbytes for pieces in arrived.values() for piece in pieces)
        assert self.now is not None
        exchange, join = move.exchange, self.now[1].join(move)
        stored = isinstance(exchange.src, Stored)
        source = {} if move.scatter or stored else self.values.get(move.pos, {})
        self.values.reserve(move.target, join.sizes)
        halo = halo_blocks(source, exchange, self.now[1].blocks)
        parts: Parts = halo or {b: pool.empty(dims, move.dtype, move.order) for b, dims in join.targets}
        reduce = exchange.reduces
        parts_of: dict[tuple[int, Box], tuple[ND, list[ND | None]]] = {}  # contributions to a box, in their order
        count = 0
        for p in join.pieces:
            view: ND = parts[p.block][p.at]
            if stored:
                with allowed():
                    read_box(self.sources[move.pos], p.box, view)
                self.read_bytes += view.nbytes
                continue
            if p.sender != self.index:
                data = waiting[p.sender].pop(0)
                count += data.nbytes if p.crosses else 0
            elif halo is not None and p.src_block == p.block:
                continue  # it is there; what comes from other blocks of this worker is not
            else:
                data = source[p.src_block][p.src_index]
            if reduce is None:
                view[...] = data
            else:
                parts_of.setdefault((p.block, p.box), (view, []))[1].append(data)
        for view, contributions in parts_of.values():
            assert reduce is not None
            reduce.combined(contributions, view)
        self.values.put(move.target, parts)
        return count

    # -- with the driver ------------------------------------------------------------------------------------------

    def cut_stored(self, key: int, cuts: Sequence[tuple[int, Any]]) -> list[ND]:
        """Parts of a stored value for the driver: of which blocks, and where in them."""
        source = self.store[key]
        return [source[block][index] for block, index in cuts]

    def write_stored(self, key: int, exchange: Exchange, sink: Sink) -> int:
        """Write the pieces of a stored value that are for this worker to write: how many elements."""
        written = 0
        for p in exchange.pieces:
            if p.src_worker == self.index:
                for box in sink.parts(p.box):
                    if not sink.whole_chunks or sink.chunk_box(box) == box:
                        sink.write(box, piece_of(self.store[key], exchange, self.mesh, replace(p, box=box)))
                        written += box_size(box)
        return written
