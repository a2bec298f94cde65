"""Values that workers hold, written to a sink from where they are. In: a value, a sink. Out: how many bytes.

Each worker writes its own pieces. A chunk that must be written by one call and lies on several workers is brought to
the driver, which writes it.
"""

from __future__ import annotations

import pickle
from time import perf_counter

from tilewise import events
from tilewise.engine.remote import Remote
from tilewise.layout import Box, Layout, Mesh, OnDriver, box_size, moves, overlap
from tilewise.store.base import Sink


def driver_boxes(layout: Layout, mesh: Mesh, sink: Sink) -> list[Box]:
    """The chunks that the driver has to write, because no worker has all of one or none may write."""
    if not sink.opened_by_workers:
        return list(sink.parts(tuple((0, n) for n in sink.shape)))
    if not sink.whole_chunks:
        return []
    split: dict[Box, None] = {}
    for p in moves(layout, OnDriver(), sink.shape, mesh).pieces:
        for part in sink.parts(p.box):
            if (chunk := sink.chunk_box(part)) != part:
                split[chunk] = None
    return list(split)


def driver_bytes(layout: Layout, mesh: Mesh, sink: Sink) -> int:
    """Bytes that cross to the driver for the chunks that it writes."""
    pieces = [p for p in moves(layout, OnDriver(), sink.shape, mesh).pieces if p.crosses]
    boxes = driver_boxes(layout, mesh, sink)
    return sum(box_size(overlap(p.box, box)) for box in boxes for p in pieces) * sink.dtype.itemsize


def store(x: Remote, sink: Sink) -> int:
    """Write a value; the sink is not committed."""
    cluster, written, began = x.cluster, 0, perf_counter()
    here = driver_boxes(x.layout, cluster.mesh, sink)
    if sink.opened_by_workers:
        exchange = moves(x.layout, OnDriver(), x.shape, cluster.mesh)
        holders = {p.src_worker for p in exchange.pieces}
        written = sum(cluster.ask_holders(x, holders, "write_stored", x.key, exchange, pickle.dumps(sink)))
        sink.count(written)
    before, asked = cluster.counters.network_bytes, perf_counter()
    for box in here:
        sink.write(box, cluster.read(x, box))
        written += box_size(box)
    if events.listeners and (moved := cluster.counters.network_bytes - before):
        events.emit(events.Event("gather", "chunks that the driver writes", asked, perf_counter(), moved))
    nbytes = written * x.dtype.itemsize
    cluster.counters.written_bytes += nbytes
    if events.listeners:
        events.emit(events.Event("store", type(sink).__name__, began, perf_counter(), nbytes))
    return nbytes
