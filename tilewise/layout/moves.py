"""What must be copied to change an array's layout. In: two layouts, shape, mesh. Out: an Exchange (pieces, traffic).

One exchange is one step, straight from source to destination; whether two steps move less is decided in route.py.
The traffic is counted from intervals, without making the pieces: an all-gather has workers x blocks of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from tilewise.layout.placement import (
    DRIVER,
    Box,
    Interval,
    Layout,
    Mesh,
    OnDriver,
    Partial,
    Replicate,
    Shard,
    box_size,
    check,
    held_box,
    place,
    whole,
    with_interval,
)


class Kind(StrEnum):
    KEEP = "keep"
    SLICE = "slice"
    TRIM = "trim ghosts"
    HALO = "halo"
    BOUNDARY = "boundary exchange"
    ALL_TO_ALL = "all-to-all"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_REDUCE = "all-reduce"
    SCATTER = "scatter"
    BROADCAST = "broadcast"
    GATHER = "gather"
    REDUCE = "reduce"


@dataclass(frozen=True, slots=True)
class Piece:
    """A box, in the array's own coordinates, to be copied from one holder to another (DRIVER may be either).

    A block is None where the holder keeps one array of its own: Replicate, Partial, OnDriver.
    """

    src_worker: int
    dst_worker: int
    src_block: int | None
    dst_block: int | None
    box: Box

    @property
    def size(self) -> int:
        return box_size(self.box)

    @property
    def crosses(self) -> bool:
        return place(self.src_worker) != place(self.dst_worker)


@dataclass(frozen=True)
class Exchange:
    """One step from a layout to another.

    The pieces cover every element of every destination block once, local copies included; from a Partial once per
    worker, to be reduced there in the order of the pieces. An element that two blocks of one worker need is sent to
    each of them (only ghosts can ask for that). `sent` and `received` count the driver as worker 0.
    """

    src: Layout
    dst: Layout
    shape: tuple[int, ...]
    mesh: Mesh

    def __post_init__(self) -> None:
        check(self.src, self.shape, self.mesh)
        check(self.dst, self.shape, self.mesh)
        assert not isinstance(self.dst, Partial), f"nothing can be moved into a {self.dst}"

    @property
    def kind(self) -> Kind:
        return _kind(self.src, self.dst)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(piece for worker in range(self.mesh.workers) for piece in self.pieces_to(worker))

    def pieces_to(self, worker: int) -> Iterator[Piece]:
        """The pieces that arrive at this worker's place, those it already holds included."""
        for receiver, block, need in self._needs(worker):
            for sender, src_block, box in self._sources(receiver, block, need):
                yield Piece(sender, receiver, src_block, block, box)

    @cached_property
    def network_elements(self) -> int:
        """Elements that cross between workers."""
        return sum(self.received(worker) for worker in range(self.mesh.workers))

    def bytes(self, itemsize: int) -> int:
        return self.network_elements * itemsize

    def received(self, worker: int) -> int:
        """Elements that reach this worker's place from others."""
        needs = [need for _, _, need in self._needs(worker)]
        match self.src:
            case Replicate():
                return 0
            case OnDriver():
                return 0 if worker == 0 else sum(map(box_size, needs))
            case Partial():
                return (self.mesh.workers - 1) * sum(map(box_size, needs))
            case Shard(axis=axis):
                return sum(
                    box_size(with_interval(need, axis, gap))
                    for need in needs
                    for gap in self._missing(worker, need[axis])
                )

    def sent(self, worker: int) -> int:
        """Elements that leave this worker's place for others."""
        assert 0 <= worker < self.mesh.workers, (worker, self.mesh)
        return self._sent[worker]

    @cached_property
    def _sent(self) -> tuple[int, ...]:
        workers = range(self.mesh.workers)
        match self.src:
            case Replicate():
                return (0,) * len(workers)
            case OnDriver():
                return (self.network_elements, *(0 for _ in workers[1:]))
            case Partial():
                needed = [sum(box_size(need) for _, _, need in self._needs(worker)) for worker in workers]
                return tuple(sum(needed) - own for own in needed)
            case Shard(axis=axis, cuts=cuts):
                edges = np.array(cuts[:: self.mesh.blocks], dtype=np.int64)  # where one worker's elements end
                total = np.zeros(len(workers), dtype=np.int64)
                for worker in workers:
                    for _, _, need in self._needs(worker):
                        across = box_size(with_interval(need, axis, (0, 1)))
                        for low, high in self._missing(worker, need[axis]):
                            within = np.clip(edges, low, high)
                            total += (within[1:] - within[:-1]) * across
                return tuple(total.tolist())

    def _needs(self, worker: int) -> Iterator[tuple[int, int | None, Box]]:
        """(holder, block, box) for everything the destination wants at this worker's place; empty boxes left out."""
        match self.dst:
            case Shard():
                for block in self.mesh.blocks_of(worker):
                    box = held_box(self.dst, self.shape, self.mesh, block=block)
                    if box_size(box):
                        yield worker, block, box
            case _ if box_size(whole(self.shape)) == 0:
                return
            case OnDriver():
                if worker == 0:
                    yield DRIVER, None, whole(self.shape)
            case Replicate():
                yield worker, None, whole(self.shape)

    def _sources(self, receiver: int, block: int | None, need: Box) -> Iterator[tuple[int, int | None, Box]]:
        """(sender, its block, box) for the parts of a need, from the receiver's own place wherever it has them."""
        match self.src:
            case Replicate():
                yield place(receiver), None, need
            case OnDriver():
                yield DRIVER, None, need
            case Partial():
                for worker in range(self.mesh.workers):
                    yield worker, None, need
            case Shard(axis=axis):
                for src_block, interval in _blocks_covering(self.src, self.mesh, place(receiver), block, need[axis]):
                    yield self.mesh.worker_of(src_block), src_block, with_interval(need, axis, interval)

    def _missing(self, worker: int, need: Interval) -> list[Interval]:
        """The parts of an interval of the source's axis that this worker does not hold."""
        assert isinstance(self.src, Shard)
        blocks = self.mesh.blocks_of(worker)
        return _without(need, self.src.held(blocks[0], blocks[-1]))


def moves(src: Layout, dst: Layout, shape: tuple[int, ...], mesh: Mesh) -> Exchange:
    """The one-step exchange from src to dst."""
    return Exchange(src, dst, shape, mesh)


def _kind(src: Layout, dst: Layout) -> Kind:
    match src, dst:
        case _ if src == dst:
            return Kind.KEEP
        case Replicate(), Shard():
            return Kind.SLICE
        case Shard(axis=a), Shard(axis=b) if a != b:
            return Kind.ALL_TO_ALL
        case Shard(cuts=a), Shard(cuts=b) if a != b:
            return Kind.BOUNDARY
        case Shard(ghosts=(a, b)), Shard(ghosts=(c, d)):
            return Kind.TRIM if c <= a and d <= b else Kind.HALO
        case Shard(), Replicate():
            return Kind.ALL_GATHER
        case Partial(), Shard():
            return Kind.REDUCE_SCATTER
        case Partial(), Replicate():
            return Kind.ALL_REDUCE
        case OnDriver(), Shard():
            return Kind.SCATTER
        case OnDriver(), Replicate():
            return Kind.BROADCAST
        case Partial(), OnDriver():
            return Kind.REDUCE
        case Shard() | Replicate(), OnDriver():
            return Kind.GATHER
    raise AssertionError(f"no exchange from {src} to {dst}")


def _blocks_covering(
    src: Shard, mesh: Mesh, worker: int, block: int | None, need: Interval
) -> Iterator[tuple[int, Interval]]:
    """(block, interval) pairs that together cover `need` once: same block, then same worker, then the owner."""
    left = [need]
    for near in _near_blocks(src, mesh, worker, block):
        held = src.held(near)
        for low, high in left:
            if max(low, held[0]) < min(high, held[1]):
                yield near, (max(low, held[0]), min(high, held[1]))
        left = [gap for interval in left for gap in _without(interval, held)]
    for low, high in left:
        while low < high:
            owner = bisect_right(src.cuts, low) - 1
            end = min(high, src.cuts[owner + 1])
            yield owner, (low, end)
            low = end


def _near_blocks(src: Shard, mesh: Mesh, worker: int, block: int | None) -> list[int]:
    """Blocks of this worker whose ghosts may spare a move or a copy. Without ghosts only the owner has an element."""
    if src.ghosts == (0, 0):
        return []
    blocks = mesh.blocks_of(worker)
    low, high = src.owned(blocks[0], blocks[-1])
    ends = [] if low == high else [bisect_right(src.cuts, low) - 1, bisect_left(src.cuts, high) - 1]
    return ends if block is None else [block, *ends]


def _without(interval: Interval, hole: Interval) -> list[Interval]:
    """The parts of an interval outside another; what is empty is left out."""
    low, high = interval
    if hole[0] >= hole[1]:
        return [interval] if low < high else []
    parts = ((low, min(high, hole[0])), (max(low, hole[1]), high))
    return [part for part in parts if part[0] < part[1]]
