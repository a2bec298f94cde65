"""Where the values of a stream are. In: leaves, a plan. Out: boxes of values, read ahead; places for what is kept.

Reads and writes run on threads of their own. Memory is set aside in a block store by who plans it, before it is used.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import Any

import numpy as np

from tilewise import events
from tilewise.engine.counters import DiskCounters
from tilewise.layout import Box, Held, Shard, dims, owned_box, reduction, runs
from tilewise.plan.shares import boxes_of
from tilewise.plan.streams import Loop, Streams, counts_for
from tilewise.store import direct, pool
from tilewise.store.base import ND, Sink, Source, within
from tilewise.store.blocks import MemoryBlocks
from tilewise.store.spill import HeldParts, Spilled

READERS = 4  # threads that read: enough for a disk to have several requests at once
WRITERS = 2  # threads that write to sinks: one may compress, or wait for the disk, while another does


class Taken:
    """What a block takes: arrays, some of which are still being read."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.arrays: dict[int, ND] = {}
        self.boxes: dict[int, Held] = {}
        self.reading: list[Future[None]] = []
        self.nbytes = self.fresh = 0  # of buffers that are new, and of those, what is read from sources
        self.began = time.perf_counter()

    def wait(self) -> dict[int, ND]:
        """The arrays, when all of them are there."""
        for future in self.reading:
            future.result()
        if self.reading:
            _tell("read", "blocks", self.began, self.fresh)
        self.reading = []
        return self.arrays


class Values:
    """Leaves and kept values by position, and the threads that read and write them."""

    def __init__(
        self,
        streams: Streams,
        leaves: Sequence[Any],
        consts: Sequence[Any],
        memory: int | None,
        counters: DiskCounters,
        sinks: Mapping[int, Sink],
        mapped: Collection[int] = (),
    ) -> None:
        self.mapped = mapped  # kept values that will be seen as one array in their file
        self.sinks = sinks
        self.streams = streams
        self.plan = streams.plan
        self.counters = counters
        self.there: dict[int, ND | Source | Sink] = {
            pos: x if isinstance(x, Source) else np.asarray(x) for pos, x in zip(self.plan.leaves, leaves, strict=True)
        }
        self.there |= {pos: np.asarray(c) for pos, c in zip(self.plan.consts, consts, strict=True)}
        self.blocks = MemoryBlocks(memory, "this process", lambda key: " ".join(map(str, key)))
        self._readers = ThreadPoolExecutor(READERS, "tilewise-read")
        self._writer = ThreadPoolExecutor(1, "tilewise-spill")
        self._storing = ThreadPoolExecutor(WRITERS, "tilewise-store")
        self._counting = Lock()
        self._writing: list[Future[None]] = []
        self._passing = {
            pos: direct.passing(x.fingerprint(), x.nbytes, nbytes)
            for pos, nbytes in streams.read_bytes_of.items()
            if isinstance(x := self.there[pos], Source)
        }

    def close(self) -> None:
        """Wait for threads; what was under way is of no use."""
        self._readers.shutdown(cancel_futures=True)
        self._writer.shutdown(cancel_futures=True)
        self._storing.shutdown(cancel_futures=True)

    # -- reading --------------------------------------------------------------------------------------------------

    def take(self, loop: Loop, block: int, before: Taken | None, planned: int | None) -> Taken:
        """Begin to read what a block takes. What has the same box as for the block before is not read again.

        `planned`: the block whose turn the plan has before. If `before` is another, what is read once more is counted
        apart.
        """
        taken = Taken(block)
        parts = dict(loop.inside)
        for x in loop.takes:
            box = taken.boxes[x] = self.streams.box(x, block)
            if x in parts:
                continue
            by = reduction(self.plan.layouts[x])
            if by is not None and not by.idempotent and block != self._speaker(x, box):
                # An earlier loop has added up what blocks contributed: one of them has the sum, the others nothing.
                kind = self.plan.specs[x].dtype
                taken.arrays[x] = np.broadcast_to(np.asarray(by.neutral(kind), kind), dims(box))
                continue
            shared = by is None and planned is not None and self.streams.box(x, planned) == box
            if shared and before is not None and before.boxes[x] == box and self.streams.in_file(x):
                taken.arrays[x] = before.arrays[x]
                taken.reading += before.reading
            else:
                taken.arrays[x] = self._part(x, box, taken, again=shared)
        for x, whole in parts.items():
            inner = tuple(runs(s)[0] for s in taken.boxes[x])  # plain intervals: plan/loops.py
            taken.arrays[x] = taken.arrays[whole][within(inner, taken.boxes[whole])]
        self.blocks.reserve(("blocks read ahead", block), taken.nbytes)
        return taken

    def _speaker(self, pos: int, box: Held) -> int:
        """The first of the blocks that have the same part of a value."""
        return next(b for b in range(self.streams.blocks) if self.streams.box(pos, b) == box)

    def whole(self, pos: int) -> ND:
        """All of a value."""
        taken = Taken(-1)
        spec = self.plan.specs[pos]
        array = self._part(pos, tuple((0, n) for n in spec.shape), taken)
        taken.wait()
        return array

    def block(self, pos: int, block: int) -> ND:
        """A block's part of a value."""
        taken = Taken(block)
        array = self._part(pos, self.streams.box(pos, block), taken)
        taken.wait()
        return array

    def _part(self, pos: int, box: Held, taken: Taken, again: bool = False) -> ND:
        spec, source = self.plan.specs[pos], self.there[self.streams.origin[pos]]
        assert not isinstance(source, Sink), "nothing is read of what is only written"
        full = tuple((0, n) for n in spec.shape)
        if isinstance(source, np.ndarray) and all(len(runs(s)) == 1 for s in box):
            view: ND = source[within(tuple(runs(s)[0] for s in box), full)]
            return view
        out = pool.empty(dims(box), spec.dtype, spec.order)
        taken.nbytes += out.nbytes
        if isinstance(source, np.ndarray):
            for part in boxes_of(box):
                out[within(part, box)] = source[within(part, full)]
            return out
        if again:
            self.counters.again_bytes += out.nbytes
        elif isinstance(source, Spilled) and self.streams.origin[pos] in self.streams.on_disk:
            self.counters.restored_bytes += out.nbytes
        elif self.streams.origin[pos] not in self.streams.held:
            self.counters.read_bytes += out.nbytes
            taken.fresh += out.nbytes
        how = self._passing.get(self.streams.origin[pos])
        for run in boxes_of(box):
            for part in source.parts(run):
                taken.reading.append(self._readers.submit(_read, source, part, out[within(part, box)], how))
        return out

    def piece(self, pos: int, box: Box) -> ND:
        """A part of what this worker has of a value, for another."""
        source, full = self.there[pos], tuple((0, n) for n in self.plan.specs[pos].shape)
        if isinstance(source, np.ndarray):
            return source[within(box, full)]  # type: ignore[no-any-return]
        assert isinstance(source, Source), "nothing is read of what is only written"
        found = source.read(box)
        self.counters.restored_bytes += found.nbytes if isinstance(source, Spilled) else 0
        return found

    def put_piece(self, pos: int, box: Box, array: ND) -> None:
        """A part of a value that another worker sent."""
        target = self.there[pos]
        if isinstance(target, HeldParts):
            self.counters.spilled_bytes += array.nbytes
            target.write(box, array)
        else:
            self.put(pos, box, array)

    # -- keeping --------------------------------------------------------------------------------------------------

    def make_room(self, pos: int) -> None:
        """A place for a value that blocks will give."""
        spec = self.plan.specs[pos]
        if pos in self.sinks:
            self.there[pos] = self.sinks[pos]
        elif pos in self.streams.on_disk:
            cut = self.plan.layouts[pos]
            by_blocks = cut if isinstance(cut, Shard) and pos not in self.mapped else None
            self.there[pos] = Spilled(spec.shape, spec.dtype, spec.order, by_blocks)
        else:
            self.blocks.reserve(("value", pos), spec.nbytes)
            self.there[pos] = pool.empty(spec.shape, spec.dtype, spec.order)

    def keep(self, pos: int, value: Any) -> None:
        """A whole value."""
        array = self.there[pos] = np.asarray(value)
        self.blocks.reserve(("value", pos), array.nbytes)

    def put(self, pos: int, box: Box, array: ND) -> None:
        """A part of a kept value, written at once."""
        target = self.there[pos]
        began = time.perf_counter()
        if isinstance(target, Sink):
            for part in target.parts(box):
                self._store(target, part, array[within(part, box)])
        elif isinstance(target, Spilled):
            target.write(box, array)
            self.counters.spilled_bytes += array.nbytes
            _tell("spill", "blocks", began, array.nbytes)
        else:
            assert isinstance(target, np.ndarray)
            target[within(box, tuple((0, n) for n in target.shape))] = array

    def _store(self, target: Sink, part: Box, array: ND) -> None:
        """Write what lies in one chunk of a sink."""
        began = time.perf_counter()
        target.write(part, array)
        with self._counting:
            self.counters.written_bytes += array.nbytes
        _tell("store", type(target).__name__, began, array.nbytes)

    def give(self, block: int, made: Mapping[int, ND]) -> None:
        """What a block has made of kept values. Files are written behind: what came before is written by then."""
        self.written()
        held = 0
        given = [*self.parts(block, made)]
        pieces = Counter(pos for pos, _, _ in given)
        for pos, part, data in given:
            if self.streams.ahead and pos in self.streams.on_disk:
                held += data.nbytes
                target = self.there[pos]
                # Where anybody may write at any time; two pieces of a block may share a chunk, parts of one do not.
                if isinstance(target, Sink) and target.opened_by_workers and pieces[pos] == 1:
                    for inner in target.parts(part):
                        piece = data[within(inner, part)]
                        self._writing.append(self._storing.submit(self._store, target, inner, piece))
                else:
                    self._writing.append(self._writer.submit(self.put, pos, part, data))
            else:
                self.put(pos, part, data)
        if held:
            self.blocks.reserve(("blocks being written",), held)

    def parts(self, block: int, made: Mapping[int, ND]) -> Iterator[tuple[int, Box, ND]]:
        """What of the values that a block has made is its own to keep: position, place, elements."""
        for pos, array in made.items():
            layout, shape = self.plan.layouts[pos], self.plan.specs[pos].shape
            if counts_for(layout, self.plan.mesh, block):
                box, own = self.streams.box(pos, block), owned_box(layout, shape, self.plan.mesh, block=block)
                for part in boxes_of(own):
                    yield pos, part, array[within(part, box)]

    def written(self) -> None:
        """Wait until all is written."""
        for future in self._writing:
            future.result()
        self._writing = []
        if ("blocks being written",) in self.blocks:
            self.blocks.release(("blocks being written",))

    def settle(self) -> None:
        """Wait until nothing is being written, whether or not that went well."""
        wait(self._writing)
        self._writing = []
        self.written()

    def drop(self, positions: Sequence[int]) -> None:
        """Let go of kept values."""
        for pos in positions:
            if self.there.pop(pos, None) is not None and ("value", pos) in self.blocks:
                self.blocks.release(("value", pos))


def _tell(kind: str, name: str, began: float, nbytes: int) -> None:
    """Say what went to or came from a disk, to those who listen."""
    if events.listeners:
        now = time.perf_counter()
        events.emit(events.Event(kind, name, began, now, nbytes, events.activity.worker))


def _read(source: Source, box: Box, out: ND, how: direct.Passing | None) -> None:
    with direct.reading(how):
        source.read(box, out=out)
