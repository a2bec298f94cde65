"""A worker's share of a plan whose blocks take turns. In: a worker, shares, what begins a run. Out: results it keeps.

Results that lie in spill files stay there, seen through a map of the file, and count as no memory.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise import events
from tilewise.engine.counters import DiskCounters
from tilewise.engine.network.transport import PeerFailed
from tilewise.engine.stream.crossing import Talk
from tilewise.engine.stream.lending import Lending
from tilewise.engine.stream.run import Share
from tilewise.engine.stream.values import Values
from tilewise.layout import Replicate, held_box, owned_box
from tilewise.plan.shares import Shares, plain
from tilewise.store import pool
from tilewise.store.base import ND, Sink, Source, within
from tilewise.store.spill import HeldParts, Spilled, check_room

if TYPE_CHECKING:
    from tilewise.engine.messages import Start
    from tilewise.engine.worker import Worker

Done = tuple[int, int, int, tuple[int, int, int]]  # as a Report begins


def run_share(worker: Worker, shares: Shares, start: Start, scattered: list[list[ND]]) -> Talk[Done]:
    """Run a worker's share; each yield is what goes to the others. Gives what it moved."""
    worker.drop(start.gone)
    worker.blocks.reset_peak()
    streams, counters = shares.of[worker.index], DiskCounters()
    network = _came(worker, scattered) if worker.index else 0
    leaves = [
        _leaf(worker, shares, pos, leaf, scattered) for pos, leaf in zip(shares.leaves, start.leaves, strict=True)
    ]
    sinks: dict[int, Sink] = {}
    for pos, packed in zip(shares.wanted, start.sinks or (None,) * len(shares.wanted), strict=True):
        if packed is not None:
            sinks[pos] = pickle.loads(packed)
    check_room(shares.spilled_bytes // shares.workers)
    there = worker.blocks.reserved_bytes
    budget = None if worker.memory is None else worker.memory - there
    mapped = {streams.origin[pos] for pos in shares.wanted}
    values = Values(streams, leaves, start.consts, budget, counters, sinks, mapped)
    try:
        lending = None if worker.lends is None else Lending(worker.lends, start.epoch, start.run)
        talk = Share(shares, worker.index, values, start.backend, worker.reached, lending).run()
        inbox: Any = None
        while True:
            try:
                outbox = talk.send(inbox)
            except StopIteration:
                break
            inbox = yield outbox
            network += _came(worker, inbox)
        peak = values.blocks.peak_bytes + there
        results = [_kept(worker, shares, values, pos) for pos in shares.wanted]
        del values.there, talk, inbox, leaves
        for pos, key, value in zip(shares.wanted, start.keys, results, strict=True):
            if value is not None:
                _store(worker, shares, streams.origin[pos], key, value)
        if worker.lends is not None:
            worker.lends.bytes += counters.again_bytes
    finally:
        values.close()
    disk = counters.spilled_bytes, counters.restored_bytes, counters.written_bytes
    peak = max(peak, worker.blocks.peak_bytes)
    worker.tell_peak(peak)
    return network, counters.read_bytes, peak, disk


def _came(worker: Worker, messages: Sequence[Sequence[ND]]) -> int:
    """Bytes that others sent."""
    nbytes = sum(piece.nbytes for pieces in messages for piece in pieces)
    if nbytes and events.listeners:
        now = time.perf_counter()
        events.emit(events.Event("exchange", "between blocks that take turns", now, now, nbytes, worker.index))
    return nbytes


def _leaf(worker: Worker, shares: Shares, pos: int, leaf: Any, scattered: list[list[ND]]) -> Any:
    spec = shares.streams.plan.specs[pos]
    if leaf is None:
        return scattered.pop(0)[0].reshape(spec.shape) if spec.nbytes else np.empty(spec.shape, spec.dtype)
    if isinstance(leaf, Source | bytes):
        return pickle.loads(leaf) if isinstance(leaf, bytes) else leaf
    if leaf not in worker.store:
        raise PeerFailed  # the run that should have made it failed
    parts, layout = worker.store[leaf], shares.held[pos]
    if isinstance(layout, Replicate):
        return parts[-1]
    blocks = shares.mesh.blocks_of(worker.index)
    boxes = [plain(held_box(layout, spec.shape, shares.mesh, block=b)) for b in blocks]
    return HeldParts([parts[b] for b in blocks], boxes, spec.shape, spec.order)


def _kept(worker: Worker, shares: Shares, values: Values, pos: int) -> dict[int, ND] | None:
    """What the worker has of a result, by block: maps of a file, or arrays; None if it was written."""
    streams = shares.streams
    origin, spec = streams.origin[pos], streams.plan.specs[pos]
    value, layout = values.there[origin], shares.result(origin)
    assert layout is not None
    if isinstance(value, Sink):
        return None
    whole = value.mapped() if isinstance(value, Spilled) else np.asarray(value)
    if isinstance(layout, Replicate):
        return {-1: whole}
    full = tuple((0, n) for n in spec.shape)
    found: dict[int, ND] = {}
    for block in shares.mesh.blocks_of(worker.index):
        box = plain(owned_box(layout, spec.shape, shares.mesh, block=block))
        found[block] = part = whole[within(box, full)]
        if not isinstance(value, Spilled):
            found[block] = pool.empty(part.shape, spec.dtype, spec.order)
            found[block][...] = part
    return found


def _store(worker: Worker, shares: Shares, origin: int, key: int, parts: dict[int, ND]) -> None:
    if origin in shares.streams.on_disk:
        worker.store.put_file(key, parts)
    else:
        worker.store.put(key, parts)
