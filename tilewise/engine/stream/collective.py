"""A collective of blocks that take turns. In: kept values. Out: a kept value.

Every block runs the collective's rounds as a worker of a mesh would (ops/traits/collectives.py). A block under way
would hold its memory until the last round, so none is kept under way: for each round a block begins anew, gets what it
was sent before, and what it sends now goes to a pile in a file.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any, NamedTuple

import numpy as np

from tilewise.engine.collectives import Participant
from tilewise.engine.stream.values import Values
from tilewise.layout import shards
from tilewise.ops.traits.collectives import Collective, CollectiveCall, Outbox, Parts
from tilewise.plan.streams import Streams
from tilewise.stage.steps import Exchange, reads
from tilewise.store import files
from tilewise.store.base import ND
from tilewise.store.spill import folder

SMALL_BYTES = 256  # of a piece that is kept in memory: counts, totals


def run_collective(streams: Streams, step: Exchange, values: Values) -> None:
    """Make the value of a collective, for which there is room already."""
    plan = streams.plan
    op, traffic = plan.specs[step.pos].op, plan.traffic(step)
    assert isinstance(op, Collective) and traffic is not None
    operands = tuple(plan.operand(x) for x in reads(step))
    call = CollectiveCall(op, operands, plan.operand(step.pos), plan.mesh, plan.specs[step.pos].site)
    rounds, blocks = len(traffic.widths), streams.blocks
    values.blocks.reserve(("a collective",), streams.collective_bytes(step))
    with _Pile() as pile:
        sent: list[list[list[list[_Piece | ND]]]] = []  # by round, sender and receiver

        def begun(block: int, last: int) -> Participant:
            """A block after some rounds."""
            sources: list[Parts] = []
            for x in reads(step):
                cut = bool(shards(plan.layouts[x]))
                sources.append({block: values.block(x, block)} if cut else {-1: values.whole(x)})
            found = Participant(call, block, sources)
            for k in range(last):
                own = found.outbox[block]
                found.receive([own if w == block else pile.taken(sent[k][w][block]) for w in range(blocks)])
            return found

        for k in range(rounds):
            sent.append([pile.put(begun(b, k).outbox, b) for b in range(blocks)])
            values.counters.spilled_bytes += pile.written
            pile.written = 0
        for b in range(blocks):
            result = begun(b, rounds).result
            assert result is not None
            values.give(b, {step.pos: result[b] if b in result else result[-1]})
        values.written()
    values.blocks.release(("a collective",))


class _Piece(NamedTuple):
    at: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class _Pile:
    """Pieces in a file without a name."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(dir=folder(), prefix="tilewise-spill-", buffering=0)
        self._end = 0
        self.written = 0

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
                view, done = memoryview(np.ascontiguousarray(piece).reshape(-1).view(np.uint8)), 0  # type: ignore[arg-type]
                while done < len(view):
                    done += os.pwrite(self._file.fileno(), view[done:], self._end + done)
            known[key] = _Piece(self._end, piece.shape, piece.dtype)
            self._end += piece.nbytes
            self.written += piece.nbytes
        return known[key]

    def taken(self, pieces: list[_Piece | ND]) -> list[ND]:
        """Pieces that a block gets."""
        return [self._read(p) if isinstance(p, _Piece) else p for p in pieces]

    def _read(self, piece: _Piece) -> ND:
        out = np.empty(piece.shape, piece.dtype)
        view, got = memoryview(out.reshape(-1).view(np.uint8)), 0  # type: ignore[arg-type]
        while got < len(view):
            got += os.preadv(self._file.fileno(), [view[got:]], piece.at + got)
        return out

    def __enter__(self) -> _Pile:
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()
