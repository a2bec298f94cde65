"""A worker: owns blocks, runs rounds of plans on them. In: plans, keys, pieces from others. Out: blocks in its store.

The same class runs in one process (virtual) and in actors (Ray). It knows nothing of other workers but the pieces they
send, and counts the bytes of those.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewise.engine.buffers import widened
from tilewise.engine.rounds import Move, Round, Run, Shuffle, rounds
from tilewise.engine.run import Runner, compiled, interpreted
from tilewise.engine.talks import Parts, Talk
from tilewise.ir.scalar import UFUNCS
from tilewise.layout import (
    DRIVER,
    Box,
    Exchange,
    Layout,
    Mesh,
    OnDriver,
    Piece,
    Shard,
    blocked,
    held_box,
    place,
    reduction,
    shards,
)
from tilewise.plan.mesh import LocalNode, MeshPlan
from tilewise.plan.steps import Pass, Step, makes, reads
from tilewise.store import pool

ND = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Start:
    """What begins a plan on a worker."""

    number: int
    leaves: tuple[int | None, ...]  # keys in the store; None: still on the driver
    consts: tuple[Any, ...]
    keys: tuple[int, ...]  # what its results are to be called
    native: bool
    gone: tuple[int, ...]  # keys that nobody needs any more


@dataclass(frozen=True)
class Failure:
    """Stands where a result or pieces should be. Without an error: somebody else failed."""

    error: Exception | None


@dataclass(frozen=True)
class Learned:
    """A plan as a worker keeps it."""

    plan: MeshPlan
    rounds: tuple[Round, ...]
    runners: dict[tuple[int, bool], Runner] = field(default_factory=dict)


class Worker:
    """Blocks by key, the plans it has learned, and the one under way."""

    def __init__(self, index: int, mesh: Mesh) -> None:
        self.index = index
        self.mesh = mesh
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.store: dict[int, Parts] = {}
        self.values: dict[int, Parts] = {}
        self.talks: dict[int, Talk] = {}
        self.plans: dict[int, Learned] = {}
        self.now: tuple[Start, Learned] | None = None  # None also after a failure: the rest of the plan is skipped

    # -- the life of a plan ---------------------------------------------------------------------------------------

    def learn(self, number: int, plan: MeshPlan) -> None:
        """Keep a plan under a number."""
        self.plans[number] = Learned(plan, rounds(plan))

    def forget(self, numbers: Sequence[int]) -> None:
        """Let go of plans."""
        for n in numbers:
            self.plans.pop(n, None)

    def drop(self, keys: Sequence[int]) -> None:
        """Let go of stored values."""
        for k in keys:
            self.store.pop(k, None)

    def advance(self, index: int, outgoing: int, start: Start | None, *arrived: Any) -> Any:
        """Do one round of the plan: (bytes that came from elsewhere, pieces for each receiver...).

        `arrived` has a list of pieces per scatter, then per sender. A failure is an answer like others, so that the
        workers stay in step: whoever meets one skips the rest of the plan, and nothing is stored.
        """
        if start is not None:
            self._begin(start)
        try:
            if self.now is None or any(isinstance(a, Failure) for a in arrived):
                raise _Skipped
            answer = self._round(self.now[1], index, list(arrived))
            if index == len(self.now[1].rounds) - 1:
                self._finish(self.now[1].plan, self.now[0].keys)
        except Exception as error:
            self.now, self.values, self.talks = None, {}, {}
            skipped = Failure(None)
            answer = (skipped if isinstance(error, _Skipped) else Failure(portable(error)), *[skipped] * outgoing)
        return answer if outgoing else answer[0]

    def _begin(self, start: Start) -> None:
        self.drop(start.gone)
        learned = self.plans[start.number]
        plan = learned.plan
        self.now, self.values, self.talks = (start, learned), {}, {}
        for pos, key in zip(plan.leaves, start.leaves, strict=True):
            if key is not None:
                self.values[pos] = dict(self.store[key])
        for pos, value in zip(plan.consts, start.consts, strict=True):
            self.values[pos] = {-1: np.asarray(value)}

    def _finish(self, plan: MeshPlan, keys: Sequence[int]) -> None:
        for pos, key in zip(plan.wanted, keys, strict=True):
            self.store[key] = self.values[pos]
        self.now, self.values = None, {}

    def _round(self, learned: Learned, index: int, arrived: list[Any]) -> tuple[Any, ...]:
        this, p = learned.rounds[index], self.mesh.workers
        count = 0
        scattered = {m: arrived.pop(0) for m in this.scatters if m.arriving(self.index)}
        waiting = {v: list(pieces) for v, pieces in zip(this.senders(self.index, p), arrived, strict=True)}
        for move in this.joins:
            count += self._join(move, waiting)
        for move in this.joins:
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
            self.values.pop(x, None)

    # -- stages ---------------------------------------------------------------------------------------------------

    def _run(self, learned: Learned, first: int, last: int) -> None:
        """Run steps [first, last) on every block."""
        plan = learned.plan
        assert self.now is not None
        native = self.now[0].native
        for i in range(first, last):
            step = plan.steps[i]
            runner = learned.runners.get((i, native))
            if runner is None:
                runner = learned.runners[i, native] = Runner([step], compiled if native else interpreted)
            if plan.blockwise(step):
                self._blocks(plan, step, runner)
            else:
                self._once(plan, step, runner)
            self._free(step.frees)

    def _once(self, plan: MeshPlan, step: Step, runner: Runner) -> None:
        block = self.mesh.blocks_of(self.index)[0]
        nothing = self._empty(plan, step, block)
        got = self._nothing(plan, step, block) if nothing else self._step(plan, step, runner, block, -1)
        for pos, value in got.items():
            self.values[pos] = {-1: value}

    def _blocks(self, plan: MeshPlan, step: Step, runner: Runner) -> None:
        sums: dict[int, ND] = {}
        for block in self.mesh.blocks_of(self.index):
            nothing = self._empty(plan, step, block)
            made = self._nothing(plan, step, block) if nothing else self._step(plan, step, runner, block, block)
            for pos, value in made.items():
                if blocked(plan.layouts[pos]):
                    self.values.setdefault(pos, {})[block] = value
                elif not nothing:
                    sums[pos] = UFUNCS[_reduction(plan, pos)](sums[pos], value) if pos in sums else value
        for pos in makes(step):
            if not blocked(plan.layouts[pos]):
                found = sums.get(pos)
                if found is None:
                    found = self._neutral(plan, pos, self.mesh.blocks_of(self.index)[0])
                self.values[pos] = {-1: np.asarray(found)}

    def _empty(self, plan: MeshPlan, step: Step, block: int) -> bool:
        """Whether a block has nothing to contribute to a partial result."""
        if not any(reduction(plan.layouts[p]) for p in makes(step)):
            return False
        seen = (*reads(step), *((step.space,) if isinstance(step, Pass) else ()))
        boxes = ((plan.layouts[p], plan.box(p, block)) for p in seen)
        return any(box[cut.axis][0] == box[cut.axis][1] for layout, box in boxes for cut in shards(layout))

    def _nothing(self, plan: MeshPlan, step: Step, block: int) -> dict[int, ND]:
        """What a block without elements stores: nothing, and contributions that change nothing."""
        out: dict[int, ND] = {}
        for p in makes(step):
            n = plan.local(p, block)
            whole = reduction(plan.layouts[p]) is None
            out[p] = pool.empty(n.dims, n.dtype, n.order) if whole else self._neutral(plan, p, block)
        return out

    def _neutral(self, plan: MeshPlan, pos: int, block: int) -> ND:
        """A contribution that changes nothing."""
        n = plan.local(pos, block)
        return np.full(n.dims, identity(_reduction(plan, pos), n.dtype), n.dtype)

    def _step(self, plan: MeshPlan, step: Step, runner: Runner, block: int, at: int) -> dict[int, ND]:
        """Run one step for one block (at = -1: for the worker)."""
        values: list[Any] = [None] * len(plan.specs)
        for p in reads(step):
            parts = self.values[p]
            values[p] = parts[at] if at in parts else parts[-1]
        nodes = _View(plan, block)
        runner.run(nodes, values, free=False)
        return {p: values[p] for p in makes(step)}

    # -- exchanges ------------------------------------------------------------------------------------------------

    def _cut(self, move: Move | Shuffle, receiver: int) -> list[ND]:
        """The pieces of a value that go to another worker."""
        if isinstance(move, Shuffle):
            if move.target not in self.talks:
                self.talks[move.target] = Talk(move.scene, self.index, [self.values[x] for x in move.needs])
            return self.talks[move.target].said[receiver]
        source = self.values[move.pos]
        return [_piece(source, move.exchange, self.mesh, p) for p in move.between(self.index, receiver)]

    def _join(self, move: Move | Shuffle, waiting: dict[int, list[ND]]) -> int:
        """Assemble the blocks of a value from pieces here and elsewhere; how many bytes came from elsewhere."""
        if isinstance(move, Shuffle):
            talk = self.talks[move.target]
            arrived = {w: [pieces.pop(0) for _ in range(move.width)] for w, pieces in waiting.items()}
            talk.hear([talk.said[w] if w == self.index else arrived[w] for w in range(self.mesh.workers)])
            if talk.result is not None:
                self.values[move.target] = talk.result
                del self.talks[move.target]
            return sum(piece.nbytes for pieces in arrived.values() for piece in pieces)
        exchange = move.exchange
        source = {} if move.scatter else self.values.get(move.pos, {})
        halo = self._halo(source, exchange)
        parts: Parts = {} if halo is None else halo
        if halo is None:
            for block in self._targets(exchange.dst):
                box = _held(exchange.dst, exchange.shape, self.mesh, self.index, block)
                parts[block] = pool.empty(tuple(hi - lo for lo, hi in box), move.dtype, move.order)
        reduce = UFUNCS[exchange.reduces] if exchange.reduces is not None else None
        begun: set[tuple[Any, ...]] = set()
        count = 0
        for piece in move.arriving(self.index):
            if move.scatter or place(piece.src_worker) != self.index:
                data = waiting[DRIVER if move.scatter else place(piece.src_worker)].pop(0)
                count += data.nbytes if piece.crosses else 0
            elif halo is not None and piece.src_block == piece.dst_block:
                continue  # it is there; what comes from other blocks of this worker is not
            else:
                data = _piece(source, exchange, self.mesh, piece)
            block = -1 if piece.dst_block is None else piece.dst_block
            view = _window(parts[block], _held(exchange.dst, exchange.shape, self.mesh, self.index, block), piece.box)
            if reduce is not None and (block, piece.box) in begun:
                reduce(view, data, out=view)
            else:
                view[...] = data
                begun.add((block, piece.box))
        self.values[move.target] = parts
        return count

    def _targets(self, layout: Layout) -> list[int]:
        if blocked(layout):
            return list(self.mesh.blocks_of(self.index))
        return [] if isinstance(layout, OnDriver) and self.index else [-1]

    def _halo(self, source: Parts, exchange: Exchange) -> Parts | None:
        """Blocks that only get or lose ghosts: the same memory, seen wider (where there is room) or narrower."""
        src, dst = exchange.src, exchange.dst
        if not (isinstance(src, Shard) and isinstance(dst, Shard)) or (src.axis, src.cuts) != (dst.axis, dst.cuts):
            return None
        out: Parts = {}
        for block in self.mesh.blocks_of(self.index):
            x = source[block]
            low = src.held(block)[0] - dst.held(block)[0]
            high = dst.held(block)[1] - src.held(block)[1]
            if low <= 0 and high <= 0:
                out[block] = x[(slice(None),) * src.axis + (slice(-low, x.shape[src.axis] + high),)]
                continue
            wide = widened(x, low, high) if src.axis == 0 and src.ghosts == (0, 0) else None
            if wide is None:
                return None
            out[block] = wide
        return out

    # -- talking to the driver ------------------------------------------------------------------------------------

    def stored(self) -> list[int]:
        """The keys of stored values."""
        return sorted(self.store)

    def cut_stored(self, key: int, exchange: Exchange) -> list[ND]:
        """Pieces of a stored value for the driver."""
        source = self.store[key]
        return [_piece(source, exchange, self.mesh, p) for p in exchange.pieces if p.src_worker == self.index]


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


class _View(Sequence[LocalNode]):
    """The plan's nodes as a block sees them, made when asked for."""

    def __init__(self, plan: MeshPlan, block: int) -> None:
        self.plan = plan
        self.block = block

    def __len__(self) -> int:
        return len(self.plan.specs)

    def __getitem__(self, pos: Any) -> Any:
        return self.plan.local(pos, self.block)


def _piece(parts: Parts, exchange: Exchange, mesh: Mesh, piece: Piece) -> ND:
    block = -1 if piece.src_block is None else piece.src_block
    return _window(parts[block], _held(exchange.src, exchange.shape, mesh, place(piece.src_worker), block), piece.box)


def _held(layout: Layout, shape: tuple[int, ...], mesh: Mesh, worker: int, block: int) -> Box:
    """What is in memory at a block, or (-1) once at the worker."""
    if not shards(layout):
        return tuple((0, n) for n in shape)
    return held_box(layout, shape, mesh, block=block if block >= 0 else mesh.blocks_of(worker)[0])


def _window(x: ND, held: Box, box: Box) -> ND:
    """The part of a block that a box in global coordinates names."""
    key: Any = (*(slice(lo - first, hi - first) for (lo, hi), (first, _) in zip(box, held, strict=True)), ...)
    return x[key]  # type: ignore[no-any-return]


def _reduction(plan: MeshPlan, pos: int) -> str:
    """The operator by which the blocks of a worker become one contribution."""
    op = reduction(plan.layouts[pos])
    assert op is not None, "what is held once is computed once, or a contribution"
    return op


def identity(op: str, dtype: Any) -> Any:
    """What changes nothing under a reduction."""
    kind = np.dtype(dtype).kind
    if op in ("minimum", "maximum", "fmin", "fmax"):
        low = op in ("maximum", "fmax")
        if kind == "b":
            return not low
        if kind in "iu":
            info = np.iinfo(dtype)
            return info.min if low else info.max
        if op in ("fmin", "fmax"):
            return np.nan
        return -np.inf if low else np.inf
    return UFUNCS[op].identity
