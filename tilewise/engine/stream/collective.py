"""A collective of blocks that take turns. In: kept values. Out: a kept value.

Every block runs the collective's rounds as a worker of a mesh would (ops/traits/collectives.py). A block under way
would hold its memory until the last round, so none is kept under way: for each round a block begins anew, gets what it
was sent before, and what it sends now goes to a pile in a file. (One that holds nothing of its operands between rounds
reads these again instead, as often as its traffic says.) What goes to blocks of other workers is sent to these, block
by block, and lies in their piles.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from tilewise import events
from tilewise.engine.collectives import Participant
from tilewise.engine.stream.crossing import Talk, even_parts, sent
from tilewise.engine.stream.values import Values
from tilewise.layout import Box, Shard, shards
from tilewise.ops.traits.collectives import Collective, CollectiveCall, Outbox, Parts, Traffic
from tilewise.plan.shares import Shares
from tilewise.plan.streams import rounds
from tilewise.stage.steps import Exchange, reads
from tilewise.store import files
from tilewise.store.base import ND
from tilewise.store.spill import Spilled, folder, nameless_file

SMALL_BYTES = 256  # of a piece that is kept in memory: counts, totals


def run_collective(shares: Shares, worker: int, loop: int, step: Exchange, values: Values) -> Talk[None]:
    """Make the value of a collective, for which there is room already."""
    plan = shares.streams.plan
    op, traffic = plan.specs[step.pos].op, plan.traffic(step)
    assert isinstance(op, Collective) and traffic is not None
    operands = tuple(plan.operand(x) for x in reads(step))
    call = CollectiveCall(op, operands, plan.operand(step.pos), plan.mesh, plan.specs[step.pos].site, in_turn=True)
    values.blocks.reserve(("a collective",), shares.streams.collective_bytes(step))
    with _Pile() as pile:
        blocks = _Blocks(call, traffic, reads(step), values, pile)
        orders = [own.loops[loop].order for own in shares.of]
        for k in range(rounds(traffic)):
            yield from blocks.round(orders, worker, traffic.widths[k])
        layout = plan.layouts[step.pos]
        if not isinstance(layout, Shard):
            for b in orders[worker]:
                values.give(b, {step.pos: blocks.result(b)})
                values.written()
        elif shares.workers == 1:
            _one_behind_the_other(blocks, orders[0], layout.axis, lambda box, x: values.put(step.pos, box, x))
        else:
            yield from _evened(shares, worker, step.pos, layout.axis, blocks, orders[worker], values)
        values.counters.spilled_bytes += pile.written
        if events.listeners:
            now = time.perf_counter()
            name = "what blocks send to each other"
            events.emit(events.Event("spill", name, now, now, pile.written, events.activity.worker))
        values.counters.restored_bytes += pile.taken_bytes
    values.blocks.release(("a collective",))


def _one_behind_the_other(blocks: _Blocks, order: Sequence[int], axis: int, put: Callable[[Box, ND], None]) -> int:
    """Put the blocks' parts of the result where those before them end; where the last one ends."""
    end = 0
    for b in order:
        part = blocks.result(b)
        begin, end = end, end + part.shape[axis]
        put(tuple((begin, end) if a == axis else (0, n) for a, n in enumerate(part.shape)), part)
    return end


def _evened(
    shares: Shares, worker: int, pos: int, axis: int, blocks: _Blocks, order: Sequence[int], values: Values
) -> Talk[None]:
    """The same on several workers: how much each has depends on data, so that parts go to where they belong."""
    spec, counters = shares.streams.plan.specs[pos], values.counters
    mine = Spilled(spec.shape, spec.dtype, spec.order)

    def keep(box: Box, part: ND) -> None:
        counters.spilled_bytes += part.nbytes
        mine.write(box, part)

    def take(part: tuple[Box, Box]) -> ND:
        found = mine.read(part[0])
        counters.restored_bytes += found.nbytes
        return found

    count = np.array([_one_behind_the_other(blocks, order, axis, keep)])
    inbox = yield [[count] if v != worker else [] for v in range(shares.workers)]
    counts = [int((count if v == worker else inbox[v][0])[0]) for v in range(shares.workers)]
    parts = even_parts(shares, pos, axis, [0, *accumulate(counts)])
    for part in parts.pop((worker, worker), ()):
        values.put(pos, part[1], take(part))
    others = {pair: its for pair, its in parts.items() if pair[0] != pair[1]}
    yield from sent(shares.workers, worker, others, take, lambda part, array: values.put(pos, part[1], array))


class _Piece(NamedTuple):
    at: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class _Slice(NamedTuple):
    """A piece that is a part of an operand in a spill file: it is read from there."""

    pos: int
    box: Box


Sent = _Piece | _Slice | ND


class _Again(dict[int, Any]):
    """A block's part of an operand, read whenever it is asked for."""

    def __init__(self, block: int, read: Callable[[], ND]) -> None:
        super().__init__({block: None})
        self.read = read

    def __getitem__(self, block: int) -> ND:
        return self.read()


class _Blocks:
    """The blocks of a worker in a collective."""

    def __init__(self, call: CollectiveCall, traffic: Traffic, ins: Sequence[int], values: Values, pile: _Pile) -> None:
        self.call, self.ins, self.values, self.pile = call, ins, values, pile
        self.whole = {x: {-1: values.whole(x)} for x in ins if not shards(values.plan.layouts[x])}
        self.sent: list[dict[int, list[list[Sent]]]] = []  # by round and sender: for each block here
        self.at: dict[int, int] = {}  # by block: its place among those here
        self.alive: dict[int, tuple[Participant, int]] = {}  # blocks under way, with the rounds that they had
        self.stay = traffic.looks is not None
        self.read: list[tuple[int, ND]] = []  # the operands of the block that began last

    def begun(self, block: int) -> Participant:
        """A block after the rounds so far."""
        found, done = self.alive.get(block) or (Participant(self.call, block, self._operands(block)), 0)
        own = self.at.get(block, 0)
        for boxes in self.sent[done:]:
            mine = found.outbox[block]
            blocks = range(self.call.mesh.workers)
            found.receive([mine if w == block else self._taken(boxes[w][own]) for w in blocks])
        if self.stay:
            self.alive[block] = found, len(self.sent)
        return found

    def _operands(self, block: int) -> list[Parts]:
        values = self.values
        if self.stay:
            return [self.whole.get(x) or _Again(block, lambda x=x: values.block(x, block)) for x in self.ins]  # type: ignore[misc]
        found = [self.whole.get(x) or {block: values.block(x, block)} for x in self.ins]
        self.read = [(x, parts[block]) for x, parts in zip(self.ins, found, strict=True) if block in parts]
        return found

    def _taken(self, pieces: Sequence[Sent]) -> list[ND]:
        """What a block was sent."""
        return [self.values.piece(*p) if isinstance(p, _Slice) else self.pile.taken(p) for p in pieces]

    def _slice(self, piece: ND, block: int) -> _Slice | None:
        """A piece as a part of what its block has just read; None if it is none, or that lies in no spill file."""
        for x, array in self.read:
            pos = self.values.streams.origin[x]
            flat = array.ndim == piece.ndim == 1 and array.dtype == piece.dtype and pos in self.values.streams.on_disk
            at = (address(piece) - address(array)) // array.itemsize
            plain = flat and piece.flags.c_contiguous and array.flags.c_contiguous
            if plain and at >= 0 and at + piece.size <= array.size:
                (held,) = self.values.streams.box(x, block)
                if isinstance(held, tuple):
                    return _Slice(pos, ((held[0] + at, held[0] + at + piece.size),))
        return None

    def round(self, orders: Sequence[Sequence[int]], worker: int, width: int) -> Talk[None]:
        """What all blocks send: of those here, and for those here."""
        own = orders[worker]
        self.at = {b: k for k, b in enumerate(own)}
        boxes: dict[int, list[list[Sent]]] = {}
        for k in range(max(map(len, orders))):
            outbox = self.begun(own[k]).outbox if k < len(own) else None
            if outbox is not None:
                b = own[k]
                boxes[b] = self.pile.put([outbox[r] if r != b else [] for r in own], partial(self._slice, block=b))
            if len(orders) == 1:
                continue
            inbox = yield [
                [] if outbox is None or v == worker else [p for b in order for p in outbox[b]]
                for v, order in enumerate(orders)
            ]
            for v, order in enumerate(orders):
                if v != worker and k < len(order):
                    boxes[order[k]] = self.pile.put([inbox[v][i * width : (i + 1) * width] for i in range(len(own))])
        self.sent.append(boxes)

    def result(self, block: int) -> ND:
        """A block's part of the result, after all rounds."""
        found = self.begun(block).result
        assert found is not None, "a collective has as many rounds as were announced"
        self.alive.pop(block, None)
        return found[block] if block in found else found[-1]


class _Pile:
    """Pieces in a file without a name."""

    def __init__(self) -> None:
        self._file = nameless_file()
        self._end = 0
        self.written = self.taken_bytes = 0

    def put(self, outbox: Outbox, slice_of: Callable[[ND], _Slice | None] = lambda piece: None) -> list[list[Sent]]:
        """Keep what a block sends; what goes to several is kept once, and not what lies in a file already."""
        known: dict[tuple[int, tuple[int, ...]], Sent] = {}
        return [[self._put(x, known, slice_of) for x in pieces] for pieces in outbox]

    def _put(self, piece: ND, known: dict[Any, Sent], slice_of: Callable[[ND], _Slice | None]) -> Sent:
        if piece.nbytes <= SMALL_BYTES or piece.dtype.hasobject:
            return piece.copy()
        if (found := slice_of(piece)) is not None:
            return found
        key = piece.__array_interface__["data"][0], piece.shape, piece.strides
        if key not in known:
            with files.explained(folder(), "write"):
                files.write_at(self._file.fileno(), files.bytes_of(piece), self._end)
            known[key] = _Piece(self._end, piece.shape, piece.dtype)
            self._end += piece.nbytes
            self.written += piece.nbytes
        return known[key]

    def taken(self, piece: _Piece | ND) -> ND:
        """A piece that a block gets."""
        if not isinstance(piece, _Piece):
            return piece
        out = np.empty(piece.shape, piece.dtype)
        self.taken_bytes += out.nbytes
        there = files.read_at(self._file.fileno(), files.bytes_of(out), piece.at)
        assert there, "a pile has what was put on it"
        return out

    def __enter__(self) -> _Pile:
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()


def address(array: ND) -> int:
    """Where its first element is."""
    return int(array.__array_interface__["data"][0])
