"""Writing arrays to sinks. In: Arrays, a sink. Out: elements written from where they are; nothing is gathered.

Work that reads a file is evaluated before the file is written anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np

from tilewise import events
from tilewise.array import force as forcing
from tilewise.array.cell import LOCK, ND
from tilewise.array.evaluation import in_turns as streaming
from tilewise.array.handle import Array, forget_source, node_of, source_leaves
from tilewise.array.pending import pending_cells
from tilewise.engine.remote import Remote
from tilewise.engine.to_sink import store as store_from_workers
from tilewise.ir.node import walk
from tilewise.layout import Box
from tilewise.store import files
from tilewise.store.base import Sink, Source, read_box, within

WRITERS = 4  # threads that write at once, at most


def write(x: Array, sink: Sink) -> Any:
    """Evaluate an array, write its elements and commit; what the sink gives."""
    with sink:
        nbytes = _written(x, sink)
        made = sink.commit()
    assert nbytes == x.nbytes, "bytes written differ from those announced"
    return made


def _written(x: Array, sink: Sink) -> int:
    with LOCK:
        if pending := x._cell.node is not None and node_of(x) is x._cell.node:
            streaming.writing[x._cell] = sink
        try:
            (own,) = forcing.evaluate_arrays([x])
        finally:
            left = streaming.writing.pop(x._cell, None)
        if pending and left is None:  # loops have written it
            return x.nbytes
        value = own.node.value if own.node is not None and own is x._cell and node_of(x) is own.node else None
        value = own.node.value if own.node is not None and own is not x._cell else value
    if isinstance(value, Remote):
        return store_from_workers(value, sink)
    if isinstance(value, Source) and value.shape == sink.shape:
        source = value

        def part(box: Box) -> ND:
            out = np.empty([hi - lo for lo, hi in box], source.dtype)
            read_box(source, box, out)
            return out

        return _written_here(part, sink)
    nd = forcing.shown(x, own)
    whole = tuple((0, n) for n in nd.shape)
    return _written_here(lambda box: nd[within(box, whole)], sink)


def _written_here(part: Callable[[Box], ND], sink: Sink) -> int:
    """Write all parts of a sink, several at a time."""
    began = perf_counter()
    boxes = list(sink.parts(tuple((0, n) for n in sink.shape)))

    def one(box: Box) -> int:
        block = part(box)
        sink.write(box, block)
        return block.nbytes

    if len(boxes) == 1 or not sink.opened_by_workers:
        nbytes = sum(map(one, boxes))
    else:
        with ThreadPoolExecutor(min(WRITERS, os.cpu_count() or 1, len(boxes) or 1)) as pool:
            nbytes = sum(pool.map(one, boxes))
    if events.listeners:
        events.emit(events.Event("store", type(sink).__name__, began, perf_counter(), nbytes))
    return nbytes


def settle_readers(path: str) -> None:
    """Evaluate what reads a file or folder, which is about to be written anew; arrays of it come into memory.

    What cannot be evaluated or is too large stays as it is: its error belongs to whoever asks for it.
    """
    with LOCK:
        for cell in [c for c in pending_cells() if c.node is not None and _reads(walk([c.node]), path)]:
            with suppress(Exception):
                forcing.evaluate([cell])
        for leaf in source_leaves():
            source = leaf.value
            if isinstance(source, Source) and source.reads(path) and source.nbytes <= files.snapshot_bytes():
                with suppress(Exception):
                    leaf.value = source.whole()
                    forget_source(source)


def _reads(nodes: Any, path: str) -> bool:
    return any(isinstance(n.value, Source) and n.value.reads(path) for n in nodes)
