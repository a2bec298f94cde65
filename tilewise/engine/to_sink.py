"""Values that workers hold, written to a sink from where they are. In: a value, a sink. Out: how many bytes.

Each worker writes its own pieces. A chunk that must be written by one call and lies on several workers is brought to
the driver, which writes it.
"""

from __future__ import annotations

import pickle

from tilewise.engine.remote import Remote
from tilewise.layout import Box, OnDriver, box_size, moves
from tilewise.store.base import Sink


def driver_boxes(x: Remote, sink: Sink) -> list[Box]:
    """The chunks that the driver has to write, because no worker has all of one or none may write."""
    if not sink.opened_by_workers:
        return list(sink.parts(tuple((0, n) for n in x.shape)))
    if not sink.whole_chunks:
        return []
    split: dict[Box, None] = {}
    for p in moves(x.layout, OnDriver(), x.shape, x.cluster.mesh).pieces:
        for part in sink.parts(p.box):
            if (chunk := sink.chunk_box(part)) != part:
                split[chunk] = None
    return list(split)


def store(x: Remote, sink: Sink) -> int:
    """Write a value; the sink is not committed."""
    cluster, written = x.cluster, 0
    here = driver_boxes(x, sink)
    if sink.opened_by_workers:
        exchange = moves(x.layout, OnDriver(), x.shape, cluster.mesh)
        holders = {p.src_worker for p in exchange.pieces}
        written = sum(cluster.ask_holders(x, holders, "write_stored", x.key, exchange, pickle.dumps(sink)))
        sink.count(written)
    for box in here:
        sink.write(box, cluster.read(x, box))
        written += box_size(box)
    nbytes = written * x.dtype.itemsize
    cluster.counters.written_bytes += nbytes
    return nbytes
