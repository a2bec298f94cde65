"""What must be copied to change an array's layout. In: two layouts, shape, mesh. Out: an Exchange (pieces, traffic).

One exchange is one direct step from source to destination; whether two steps move less is decided in route.py.
The traffic is counted from intervals, without making the pieces: an all-gather has workers x blocks of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import product
from math import prod

import numpy as np

from tilewise.ir.reductions import Reduction
from tilewise.layout.index_set import Box, Held, Interval, boxes, common, shared, size
from tilewise.layout.placement import (
    DRIVER,
    Cutting,
    Grid,
    Layout,
    Mesh,
    OnDriver,
    Partial,
    Piecewise,
    Replicate,
    Shard,
    Stored,
    bare,
    blocked,
    box_size,
    check,
    coordinates,
    held_box,
    lines,
    place,
    placements,
    reduction,
    with_interval,
)
from tilewise.records import dataclass

EXCHANGES_KEPT = 256


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
    REGRID = "regrid"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Piece:
    """A box, in the array's own coordinates, to be copied from one holder to another (DRIVER may be either).

    A block is None where the holder keeps one array of its own: layouts that do not cut it into blocks.
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
    contribution, to be reduced there in the order of the pieces. An element that two blocks of one worker need is sent
    to each of them (only ghosts can ask for that). `sent` and `received` count the driver as worker 0.
    """

    src: Layout
    dst: Layout
    shape: tuple[int, ...]
    mesh: Mesh

    def __post_init__(self) -> None:
        check(self.src, self.shape, self.mesh)
        check(self.dst, self.shape, self.mesh)
        left = reduction(self.dst)
        assert left is None or self._kept_partial is not None, f"{self.src} cannot become {self.dst}"

    @property
    def kind(self) -> Kind:
        return _kind(self.src, self.dst)

    @property
    def reduces(self) -> Reduction | None:
        """The reduction that combines pieces of one box; None where each box comes once."""
        return None if self._kept_partial is not None else reduction(self.src)

    @cached_property
    def _kept_partial(self) -> int | None:
        return kept_partial(self.src, self.dst)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(piece for worker in range(self.mesh.workers) for piece in self.pieces_to(worker))

    def pieces_to(self, worker: int) -> Iterator[Piece]:
        """The pieces that arrive at this worker's place, those it already holds included."""
        for receiver, block, need in self._boxes(worker):
            for sender, src_block, box in self._sources(receiver, block, need):
                yield Piece(sender, receiver, src_block, block, box)

    @cached_property
    def network_elements(self) -> int:
        """Elements that cross between workers."""
        return sum(self._received)

    def bytes(self, itemsize: int) -> int:
        return self.network_elements * itemsize

    @cached_property
    def read_elements(self) -> int:
        """Elements that workers read from a store, what several of them need counted for each."""
        if not isinstance(self.src, Stored):
            return 0
        return sum(size(need) for worker in range(self.mesh.workers) for _, _, need in self._needs(worker))

    def received(self, worker: int) -> int:
        """Elements that reach this worker's place from others."""
        return self._received[worker]

    def sent(self, worker: int) -> int:
        """Elements that leave this worker's place for others."""
        assert 0 <= worker < self.mesh.workers, (worker, self.mesh)
        return self._sent[worker]

    @cached_property
    def _received(self) -> tuple[int, ...]:
        copies = contributions(self.src, self.dst, self.mesh)
        return tuple(
            sum(copies * box_size(need) - self._at_hand(worker, need) for _, _, need in self._boxes(worker))
            for worker in range(self.mesh.workers)
        )

    def _at_hand(self, worker: int, need: Box) -> int:
        """How many elements of a need this worker has in its own memory (of one contribution)."""
        if isinstance(self.src, OnDriver):
            return box_size(need) if worker == 0 else 0
        if isinstance(self.src, Stored):
            return box_size(need)
        return shared(held_box(self.src, self.shape, self.mesh, worker=worker), need)

    @cached_property
    def _sent(self) -> tuple[int, ...]:
        workers = range(self.mesh.workers)
        if isinstance(self.src, OnDriver):
            return (self.network_elements, *(0 for _ in workers[1:]))
        if isinstance(self.src, Stored):
            return (0,) * self.mesh.workers
        total = np.zeros(self.mesh.workers, dtype=np.int64)
        for worker in workers:
            for _, _, need in self._boxes(worker):
                total += self._shares(worker, need)
                total[worker] -= self._at_hand(worker, need)
        return tuple(total.tolist())

    def _shares(self, worker: int, need: Box) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """How many elements of a need each worker gives."""
        rest = need
        share = np.ones((), dtype=np.int64)
        own = coordinates(self.src, self.mesh, worker)
        for k, (part, line) in enumerate(lines(self.src, self.mesh)):
            if isinstance(part, Shard):
                weights = _overlaps(part, line, own[k], need[part.axis])
                rest = with_interval(rest, part.axis, (0, 1))
            elif isinstance(part, Piecewise):
                weights = np.zeros(line.workers, dtype=np.int64)
                for at, (low, high) in _owners(part, need[part.axis]):
                    weights[at // line.blocks] += high - low
                rest = with_interval(rest, part.axis, (0, 1))
            elif isinstance(part, Partial) and k != self._kept_partial:
                weights = np.ones(line.workers, dtype=np.int64)
            else:
                weights = np.zeros(line.workers, dtype=np.int64)
                weights[own[k]] = 1
            share = np.multiply.outer(share, weights)
        return share.reshape(-1) * box_size(rest)

    def _boxes(self, worker: int) -> Iterator[tuple[int, int | None, Box]]:
        """What the destination wants at this worker's place, as boxes."""
        for holder, block, need in self._needs(worker):
            for box in boxes(need):
                yield holder, block, box

    def _needs(self, worker: int) -> Iterator[tuple[int, int | None, Held]]:
        """(holder, block, indices) for everything the destination wants at this worker's place; not what is empty."""
        if isinstance(self.dst, OnDriver):
            box = held_box(self.dst, self.shape, self.mesh, worker=DRIVER)
            if worker == 0 and size(box):
                yield DRIVER, None, box
        elif blocked(self.dst):
            for block in self.mesh.blocks_of(worker):
                box = held_box(self.dst, self.shape, self.mesh, block=block)
                if size(box):
                    yield worker, block, box
        else:
            box = held_box(self.dst, self.shape, self.mesh, worker=worker)
            if size(box):
                yield worker, None, box

    def _sources(self, receiver: int, block: int | None, need: Box) -> Iterator[tuple[int, int | None, Box]]:
        """(sender, its block, box) for the parts of a need, from the receiver's own place wherever it has them."""
        if isinstance(self.src, OnDriver):
            yield DRIVER, None, need
            return
        if isinstance(self.src, Stored):  # every worker reads its own
            yield place(receiver), None, need
            return
        here = place(receiver)
        own = coordinates(self.src, self.mesh, here)
        ways: list[list[tuple[int, Interval | None]]] = []  # per line: (block of the line or worker on it, its part)
        for k, (part, line) in enumerate(lines(self.src, self.mesh)):
            if isinstance(part, Shard):
                near = None if block is None else own[k] * line.blocks + (block % self.mesh.blocks) % line.blocks
                ways.append(list(_blocks_covering(part, line, own[k], near, need[part.axis])))
            elif isinstance(part, Piecewise):
                ways.append(list(_owners(part, need[part.axis])))
            elif isinstance(part, Partial) and k != self._kept_partial:
                ways.append([(worker, None) for worker in range(line.workers)])
            else:
                ways.append([(own[k], None)])
        for way in product(*ways):
            box = need
            for (_, interval), part in zip(way, placements(self.src), strict=True):
                if interval is not None and isinstance(part, Cutting):
                    box = with_interval(box, part.axis, interval)
            yield *self._sender(tuple(at for at, _ in way)), box

    def _sender(self, at: tuple[int, ...]) -> tuple[int, int | None]:
        """(worker, block) at these places of the source's lines."""
        if not blocked(self.src):
            return (at[0] if len(at) == 1 else at[0] * self.mesh.columns + at[1]), None
        row, inner = divmod(at[0], self.mesh.blocks)
        worker = row if len(at) == 1 else row * self.mesh.columns + at[1]
        return worker, worker * self.mesh.blocks + inner


def kept_partial(src: Layout, dst: Layout) -> int | None:
    """The direction of the grid along which contributions stay as they are."""
    if isinstance(src, Grid) and isinstance(dst, Grid):
        for k, (a, b) in enumerate(zip(placements(src), placements(dst), strict=True)):
            if isinstance(a, Partial) and a == b:
                return k
    return None


def contributions(src: Layout, dst: Layout, mesh: Mesh) -> int:
    """How many contributions of an element every place of the destination takes."""
    if isinstance(src, OnDriver | Stored):
        return 1
    kept = kept_partial(src, dst)
    return prod(
        line.workers for k, (part, line) in enumerate(lines(src, mesh)) if isinstance(part, Partial) and k != kept
    )


@lru_cache(maxsize=EXCHANGES_KEPT)
def moves(src: Layout, dst: Layout, shape: tuple[int, ...], mesh: Mesh) -> Exchange:
    """The one-step exchange from src to dst; its pieces are worked out once, however often a loop asks."""
    return Exchange(src, dst, shape, mesh)


def _kind(src: Layout, dst: Layout) -> Kind:
    match src, dst:
        case _ if src == dst:
            return Kind.KEEP
        case (Stored(), _):
            return Kind.READ
        case (Grid(), _) | (_, Grid()):
            return _grid_kind(src, dst)
        case Replicate(), Shard() | Piecewise():
            return Kind.SLICE
        case (Piecewise(axis=a), Shard(axis=b) | Piecewise(axis=b)) | (Shard(axis=a), Piecewise(axis=b)):
            return Kind.BOUNDARY if a == b else Kind.ALL_TO_ALL
        case Shard(axis=a), Shard(axis=b) if a != b:
            return Kind.ALL_TO_ALL
        case Shard(cuts=a), Shard(cuts=b) if a != b:
            return Kind.BOUNDARY
        case Shard(ghosts=(a, b)), Shard(ghosts=(c, d)):
            return Kind.TRIM if c <= a and d <= b else Kind.HALO
        case Shard() | Piecewise(), Replicate():
            return Kind.ALL_GATHER
        case Partial(), Shard() | Piecewise():
            return Kind.REDUCE_SCATTER
        case Partial(), Replicate():
            return Kind.ALL_REDUCE
        case OnDriver(), Shard() | Piecewise():
            return Kind.SCATTER
        case OnDriver(), Replicate():
            return Kind.BROADCAST
        case Partial(), OnDriver():
            return Kind.REDUCE
        case Shard() | Piecewise() | Replicate(), OnDriver():
            return Kind.GATHER
    raise AssertionError(f"no exchange from {src} to {dst}")


def _grid_kind(src: Layout, dst: Layout) -> Kind:
    """On a grid: what happens along the one direction that changes, or a regrid if both do."""
    if isinstance(src, OnDriver):
        return Kind.SCATTER
    if isinstance(dst, OnDriver):
        return Kind.REDUCE if reduction(src) else Kind.GATHER
    if bare(src) == bare(dst):
        return Kind.HALO
    if isinstance(src, Grid) and isinstance(dst, Grid | Replicate | Partial):
        goal = placements(dst) if isinstance(dst, Grid) else (dst, dst)
        changed = [(a, b) for a, b in zip(placements(src), goal, strict=True) if a != b]
        if len(changed) == 1 and not isinstance(changed[0][1], Partial):
            return _kind(*changed[0])
    if isinstance(src, Replicate):
        return Kind.SLICE
    if reduction(src):
        return Kind.ALL_REDUCE if isinstance(dst, Replicate) else Kind.REDUCE_SCATTER
    return Kind.ALL_GATHER if isinstance(dst, Replicate) else Kind.REGRID


def _overlaps(src: Shard, line: Mesh, own: int, need: Interval) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How much of an interval each worker of the line gives: `own` all that it holds, others what they own."""
    edges = np.array(src.cuts[:: line.blocks], dtype=np.int64)  # where one worker's elements end
    out = np.zeros(line.workers, dtype=np.int64)
    held = src.held(own * line.blocks, (own + 1) * line.blocks - 1)
    for low, high in _without(need, held):
        within = np.clip(edges, low, high)
        out += within[1:] - within[:-1]
    out[own] += max(min(need[1], held[1]) - max(need[0], held[0]), 0)
    return out


def _owners(src: Piecewise, need: Interval) -> Iterator[tuple[int, Interval]]:
    """(block, interval) pairs that together are `need`."""
    for block, own in enumerate(src.sets):
        for part in common(own, need):
            yield block, part


def _blocks_covering(
    src: Shard, line: Mesh, worker: int, block: int | None, need: Interval
) -> Iterator[tuple[int, Interval]]:
    """(block, interval) pairs that together cover `need` once: same block, then same worker, then the owner."""
    left = [need]
    for near in _near_blocks(src, line, worker, block):
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


def _near_blocks(src: Shard, line: Mesh, worker: int, block: int | None) -> list[int]:
    """Blocks of this worker whose ghosts may save a move or a copy. Without ghosts only the owner has an element."""
    if src.ghosts == (0, 0):
        return []
    blocks = line.blocks_of(worker)
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
