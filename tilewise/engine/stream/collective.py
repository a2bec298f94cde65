"""A collective of blocks that take turns. In: kept values. Out: a kept value.

Every block runs the collective's rounds as a worker of a mesh would (ops/traits/collectives.py). A block under way
would hold its memory until the last round, so none is kept under way: for each round a block begins anew, gets what it
was sent before, and what it sends now goes to a pile in a file.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from tilewise import events
from tilewise.engine.collectives import Participant
from tilewise.engine.stream.values import Values
from tilewise.layout import Shard, shards
from tilewise.ops.traits.collectives import Collective, CollectiveCall, Outbox, Parts
from tilewise.plan.streams import Streams
from tilewise.stage.steps import Exchange, reads
from tilewise.store import files
from tilewise.store.base import ND
from tilewise.store.spill import folder, nameless_file

SMALL_BYTES = 256  # of a piece that is kept in memory: counts, totals


def run_collective(streams: Streams, step: Exchange, values: Values) -> None:
    """Make the value of a collective, for which there is room already."""
    plan = streams.plan
    op = plan.specs[step.pos].op
    assert isinstance(op, Collective)
    operands = tuple(plan.operand(x) for x in reads(step))
    site, blocks = plan.specs[step.pos].site, streams.blocks
    call = CollectiveCall(op, operands, plan.operand(step.pos), plan.mesh, site, in_turn=True)
    values.blocks.reserve(("a collective",), streams.collective_bytes(step))
    whole = {x: {-1: values.whole(x)} for x in reads(step) if not shards(plan.layouts[x])}
    with _Pile() as pile:
        sent: list[list[list[list[_Piece | ND]]]] = []  # by round, sender and receiver

        def begun(block: int) -> Participant:
            """A block after the rounds so far."""
            sources: list[Parts] = [whole[x] if x in whole else {block: values.block(x, block)} for x in reads(step)]
            found = Participant(call, block, sources)
            for boxes in sent:
                own = found.outbox[block]
                found.receive([own if w == block else pile.taken(boxes[w][block]) for w in range(blocks)])
            return found

        first = begun(0)
        while first.result is None:
            sent.append([pile.put(begun(b).outbox if b else first.outbox, b) for b in range(blocks)])
            first = begun(0)
        end = 0
        for b in range(blocks):
            result = (begun(b) if b else first).result
            assert result is not None
            end = _put(values, step.pos, b, result[b] if b in result else result[-1], end)
        values.counters.spilled_bytes += pile.written
        if events.listeners:
            now = time.perf_counter()
            events.emit(events.Event("spill", "what blocks send to each other", now, now, pile.written))
        values.counters.restored_bytes += pile.taken_bytes
    values.blocks.release(("a collective",))


def _put(values: Values, pos: int, block: int, part: ND, end: int) -> int:
    """Keep a block's part of the result, behind those before it; where the next one begins."""
    layout = values.plan.layouts[pos]
    if not isinstance(layout, Shard):
        values.give(block, {pos: part})
        values.written()
        return 0
    begin, end = end, end + part.shape[layout.axis]
    box = tuple((begin, end) if axis == layout.axis else (0, n) for axis, n in enumerate(part.shape))
    values.put(pos, box, part)
    return end


class _Piece(NamedTuple):
    at: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class _Pile:
    """Pieces in a file without a name."""

    def __init__(self) -> None:
        self._file = nameless_file()
        self._end = 0
        self.written = self.taken_bytes = 0

    def put(self, outbox: Outbox, own: int) -> list[list[_Piece | ND]]:
        """Keep what a block sends to others; what goes to several is kept once."""
        known: dict[tuple[int, tuple[int, ...]], _Piece | ND] = {}
        return [[] if w == own else [self._put(x, known) for x in pieces] for w, pieces in enumerate(outbox)]

    def _put(self, piece: ND, known: dict[Any, _Piece | ND]) -> _Piece | ND:
        if piece.nbytes <= SMALL_BYTES or piece.dtype.hasobject:
            return piece.copy()
        key = piece.__array_interface__["data"][0], piece.shape, piece.strides
        if key not in known:
            with files.explained(folder(), "write"):
                files.write_at(self._file.fileno(), files.bytes_of(piece), self._end)
            known[key] = _Piece(self._end, piece.shape, piece.dtype)
            self._end += piece.nbytes
            self.written += piece.nbytes
        return known[key]

    def taken(self, pieces: list[_Piece | ND]) -> list[ND]:
        """Pieces that a block gets."""
        return [self._read(p) if isinstance(p, _Piece) else p for p in pieces]

    def _read(self, piece: _Piece) -> ND:
        out = np.empty(piece.shape, piece.dtype)
        self.taken_bytes += out.nbytes
        there = files.read_at(self._file.fileno(), files.bytes_of(out), piece.at)
        assert there, "a pile has what was put on it"
        return out

    def __enter__(self) -> _Pile:
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()
