"""The mesh, and the ways an array can lie on it. Values only; how to get from one way to another is in moves.py."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from tilewise.layout.cuts import Cuts, even_cuts

Interval = tuple[int, int]
Box = tuple[Interval, ...]

# The driver as a sender or receiver of pieces. It shares the place of worker 0: nothing crosses between the two.
DRIVER = -1


@dataclass(frozen=True)
class Mesh:
    """Workers in a line, each with the same number of blocks; block j belongs to worker j // blocks."""

    workers: int
    blocks: int = 1

    def __post_init__(self) -> None:
        assert self.workers >= 1 and self.blocks >= 1, self

    @property
    def total_blocks(self) -> int:
        return self.workers * self.blocks

    def worker_of(self, block: int) -> int:
        assert 0 <= block < self.total_blocks, (block, self)
        return block // self.blocks

    def blocks_of(self, worker: int) -> range:
        assert 0 <= worker < self.workers, (worker, self)
        return range(worker * self.blocks, (worker + 1) * self.blocks)


@dataclass(frozen=True)
class Shard:
    """Block j owns [cuts[j], cuts[j+1]) of one axis and all of the others.

    With ghosts it also holds copies of up to `ghosts[0]` elements before and `ghosts[1]` after that interval. A block
    that owns nothing computes nothing, so it holds no ghosts either.
    """

    axis: int
    cuts: Cuts
    ghosts: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        assert self.axis >= 0 and min(self.ghosts) >= 0, self
        assert len(self.cuts) >= 2 and self.cuts[0] == 0, self
        assert all(low <= high for low, high in pairwise(self.cuts)), self

    def owned(self, first: int, last: int | None = None) -> Interval:
        """What block `first` owns along the axis, or blocks first..last (inclusive) together."""
        return self.cuts[first], self.cuts[(first if last is None else last) + 1]

    def held(self, first: int, last: int | None = None) -> Interval:
        """What block `first` owns and its ghosts, or blocks first..last together: adjacent, so one interval."""
        low, high = self.owned(first, last)
        if low == high:
            return low, high
        return max(low - self.ghosts[0], 0), min(high + self.ghosts[1], self.cuts[-1])


@dataclass(frozen=True)
class Replicate:
    """Every worker holds the whole array, once whatever its number of blocks."""


@dataclass(frozen=True)
class Partial:
    """Every worker holds one contribution of the full shape; the value is their reduction by a NumPy ufunc's name."""

    op: str


@dataclass(frozen=True)
class OnDriver:
    """The driver holds the whole array."""


Layout = Shard | Replicate | Partial | OnDriver


def place(worker: int) -> int:
    """The worker whose place this worker, or the driver, is at."""
    return max(worker, 0)


def even_shard(axis: int, shape: tuple[int, ...], mesh: Mesh, *, ghosts: tuple[int, int] = (0, 0)) -> Shard:
    return Shard(axis, even_cuts(shape[axis], mesh.total_blocks), ghosts)


def check(layout: Layout, shape: tuple[int, ...], mesh: Mesh) -> None:
    """Assert that an array of this shape can lie so on this mesh."""
    if isinstance(layout, Shard):
        assert layout.axis < len(shape), (layout, shape)
        assert layout.cuts[-1] == shape[layout.axis], (layout, shape)
        assert len(layout.cuts) == mesh.total_blocks + 1, (layout, mesh)


def owned_box(
    layout: Layout, shape: tuple[int, ...], mesh: Mesh, *, worker: int | None = None, block: int | None = None
) -> Box:
    """The part of the array that a worker (all its blocks) or one block owns. For OnDriver the worker is DRIVER."""
    return _box(layout, shape, mesh, worker, block, ghosts=False)


def held_box(
    layout: Layout, shape: tuple[int, ...], mesh: Mesh, *, worker: int | None = None, block: int | None = None
) -> Box:
    """As owned_box, ghosts included: what is in memory there."""
    return _box(layout, shape, mesh, worker, block, ghosts=True)


def box_size(box: Box) -> int:
    return prod(high - low for low, high in box)


def whole(shape: tuple[int, ...]) -> Box:
    return tuple((0, n) for n in shape)


def with_interval(box: Box, axis: int, interval: Interval) -> Box:
    return (*box[:axis], interval, *box[axis + 1 :])


def _box(
    layout: Layout, shape: tuple[int, ...], mesh: Mesh, worker: int | None, block: int | None, *, ghosts: bool
) -> Box:
    assert (worker is None) != (block is None), "give a worker or a block"
    box = whole(shape)
    if isinstance(layout, OnDriver):
        assert worker == DRIVER, (layout, worker, block)
        return box
    if block is None:
        assert worker is not None
        blocks = mesh.blocks_of(worker)
    else:
        assert 0 <= block < mesh.total_blocks, (block, mesh)
        blocks = range(block, block + 1)
    if not isinstance(layout, Shard):
        return box
    of_blocks = layout.held if ghosts else layout.owned
    return with_interval(box, layout.axis, of_blocks(blocks[0], blocks[-1]))
