"""The mesh, and the layouts of arrays on it. Values only; how to change from one layout to another is in moves.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod

from tilewise.ir.reductions import Reduction, by_name
from tilewise.layout.cuts import Cuts, all_at, even_cuts
from tilewise.layout.index_set import Box, Held, IndexSet, Interval, Union, length, runs, union
from tilewise.records import dataclass

Ghosts = tuple[int, int]  # elements before and after what a block owns

# The driver as a sender or receiver of pieces. It shares the place of worker 0: nothing crosses between the two.
DRIVER = -1


@dataclass(frozen=True)
class Mesh:
    """Workers in a line or a grid, each with the same number of blocks; block j belongs to worker j // blocks.

    In a grid, worker w stands in row w // columns and column w % columns.
    """

    workers: int
    blocks: int = 1
    columns: int = 1

    def __post_init__(self) -> None:
        assert self.workers >= 1 and self.blocks >= 1 and self.columns >= 1, self
        assert self.workers % self.columns == 0, self

    @property
    def total_blocks(self) -> int:
        return self.workers * self.blocks

    @property
    def rows(self) -> int:
        return self.workers // self.columns

    @property
    def grid(self) -> bool:
        """Whether there are two directions to cut along."""
        return self.columns > 1 and self.rows > 1

    @property
    def down(self) -> Mesh:
        """The line of workers that the first placement of a Grid is on; a worker's blocks are cut along it."""
        return _line(self.rows, self.blocks)

    @property
    def across(self) -> Mesh:
        """The line of workers that the second placement of a Grid is on."""
        return _line(self.columns, 1)

    def worker_of(self, block: int) -> int:
        assert 0 <= block < self.total_blocks, (block, self)
        return block // self.blocks

    def blocks_of(self, worker: int) -> range:
        assert 0 <= worker < self.workers, (worker, self)
        return range(worker * self.blocks, (worker + 1) * self.blocks)

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}" if self.grid else str(self.workers)


@lru_cache(maxsize=256)
def _line(workers: int, blocks: int) -> Mesh:
    return Mesh(workers, blocks)


@dataclass(frozen=True)
class Shard:
    """Block j owns [cuts[j], cuts[j+1]) of one axis and all of the others.

    With ghosts it also holds copies of up to `ghosts[0]` elements before and `ghosts[1]` after that interval. A block
    that owns nothing computes nothing, so it holds no ghosts either.
    """

    axis: int
    cuts: Cuts
    ghosts: Ghosts = (0, 0)

    def __post_init__(self) -> None:
        assert self.axis >= 0 and min(self.ghosts) >= 0, self
        assert len(self.cuts) >= 2 and self.cuts[0] == 0, self
        assert all(low <= high for low, high in pairwise(self.cuts)), self

    def __hash__(self) -> int:  # plans are looked up by layouts, and cuts may be long
        try:
            return self.__dict__["_hash"]  # type: ignore[no-any-return]
        except KeyError:
            known = self.__dict__["_hash"] = hash((self.axis, self.cuts, self.ghosts))
            return known

    def __getstate__(self) -> tuple[int, Cuts, tuple[int, int]]:
        return self.axis, self.cuts, self.ghosts

    def __setstate__(self, state: tuple[int, Cuts, tuple[int, int]]) -> None:
        for name, value in zip(("axis", "cuts", "ghosts"), state, strict=True):
            object.__setattr__(self, name, value)

    def owned(self, first: int, last: int | None = None) -> Interval:
        """What block `first` owns along the axis, or blocks first..last (inclusive) together."""
        return self.cuts[first], self.cuts[(first if last is None else last) + 1]

    def held(self, first: int, last: int | None = None) -> Interval:
        """What block `first` owns and its ghosts, or blocks first..last together: adjacent, so one interval."""
        low, high = self.owned(first, last)
        if low == high:
            return low, high
        return max(low - self.ghosts[0], 0), min(high + self.ghosts[1], self.cuts[-1])

    def along(self, axis: int) -> Shard:
        """The same cuts of another axis."""
        return Shard(axis, self.cuts, self.ghosts)


@dataclass(frozen=True)
class Piecewise:
    """Block j owns the indices sets[j] of one axis and all of the others; every index has one owner.

    What a concatenation or a flip makes of cuts: blocks of several intervals, or in another order.
    """

    axis: int
    sets: tuple[IndexSet, ...]

    def __post_init__(self) -> None:
        ends = sorted(run for s in self.sets for run in runs(s) if run[0] < run[1])
        assert self.axis >= 0 and all(a[1] == b[0] for a, b in pairwise(ends)), self
        assert not ends or ends[0][0] == 0, self

    def __hash__(self) -> int:  # as for Shard
        try:
            return self.__dict__["_hash"]  # type: ignore[no-any-return]
        except KeyError:
            known = self.__dict__["_hash"] = hash((self.axis, self.sets))
            return known

    def __getstate__(self) -> tuple[int, tuple[IndexSet, ...]]:
        return self.axis, self.sets

    def __setstate__(self, state: tuple[int, tuple[IndexSet, ...]]) -> None:
        for name, value in zip(("axis", "sets"), state, strict=True):
            object.__setattr__(self, name, value)

    @property
    def length(self) -> int:
        """Of the axis."""
        return sum(map(length, self.sets))

    def owned(self, first: int, last: int | None = None) -> IndexSet:
        """What block `first` owns along the axis, or blocks first..last (inclusive) together."""
        if last is None or last == first:
            return self.sets[first]
        return union(run for s in self.sets[first : last + 1] for run in runs(s))

    held = owned  # there are no ghosts

    def along(self, axis: int) -> Piecewise:
        """The same sets of another axis."""
        return Piecewise(axis, self.sets)


Cutting = Shard | Piecewise  # one axis is divided among blocks


def divided(axis: int, sets: Sequence[IndexSet]) -> Cutting:
    """An axis of which every block has a set of indices: plain cuts, if the sets are consecutive intervals."""
    ends = [0]
    for s in sets:
        if length(s) and (isinstance(s, Union) or s[0] != ends[-1]):
            return Piecewise(axis, tuple(sets))
        ends.append(ends[-1] + length(s))
    return Shard(axis, tuple(ends))


def lengths_of(cutting: Cutting) -> tuple[int, ...]:
    """How many indices of its axis each block owns."""
    if isinstance(cutting, Piecewise):
        return tuple(map(length, cutting.sets))
    return tuple(high - low for low, high in pairwise(cutting.cuts))


@dataclass(frozen=True)
class Replicate:
    """Every worker holds the whole array once, however many blocks it has."""


@dataclass(frozen=True)
class Partial:
    """Every worker holds one contribution of the full shape; the value is their reduction, in the order of blocks."""

    op: Reduction

    def __init__(self, op: Reduction | str) -> None:
        object.__setattr__(self, "op", by_name(op) if isinstance(op, str) else op)

    def __repr__(self) -> str:
        return f"Partial({self.op.name!r})"


@dataclass(frozen=True)
class OnDriver:
    """The driver holds the whole array."""


@dataclass(frozen=True)
class Stored:
    """The whole array lies in a store that every worker reads from by itself: nothing crosses between workers."""


Outside = OnDriver | Stored  # no worker has a part of it

Placement = Shard | Piecewise | Replicate | Partial


@dataclass(frozen=True)
class Grid:
    """One placement for each direction of a grid of workers; made by `grid_layout`, which knows the simpler names.

    Workers of one row hold the same part as far as `down` is concerned, and cut it (or not) by `across`.
    """

    down: Placement
    across: Placement

    def __hash__(self) -> int:  # as for Shard
        try:
            return self.__dict__["_hash"]  # type: ignore[no-any-return]
        except KeyError:
            known = self.__dict__["_hash"] = hash((self.down, self.across))
            return known

    def __getstate__(self) -> tuple[Placement, Placement]:
        return self.down, self.across

    def __setstate__(self, state: tuple[Placement, Placement]) -> None:
        for name, value in zip(("down", "across"), state, strict=True):
            object.__setattr__(self, name, value)


Layout = Shard | Piecewise | Replicate | Partial | OnDriver | Stored | Grid


@lru_cache(maxsize=4096)
def grid_layout(down: Placement, across: Placement) -> Layout:
    """The layout with these two placements: a Grid, or the layout that it equals."""
    if isinstance(down, Cutting) and isinstance(across, Cutting):
        assert down.axis != across.axis, (down, across)
    elif down == across:
        return down
    elif isinstance(down, Partial) and isinstance(across, Partial):
        raise AssertionError(f"partial by two operators: {down}, {across}")
    return Grid(down, across)


def placements(layout: Layout) -> tuple[Placement, ...]:
    """The parts of a layout: one, or one per direction of the grid."""
    if isinstance(layout, Grid):
        return layout.down, layout.across
    assert not isinstance(layout, Outside), layout
    return (layout,)


def blocked(layout: Layout) -> bool:
    """Whether a worker holds an array per block (else one in all)."""
    return isinstance(layout.down if isinstance(layout, Grid) else layout, Cutting)


def shards(layout: Layout) -> tuple[Cutting, ...]:
    """The axes that a layout cuts, at most one per direction."""
    if isinstance(layout, Cutting):
        return (layout,)
    if isinstance(layout, Grid):
        return tuple(p for p in (layout.down, layout.across) if isinstance(p, Cutting))
    return ()


def is_cut(layout: Layout) -> bool:
    """Whether blocks have different parts, or contributions."""
    return bool(shards(layout)) or reduction(layout) is not None


def reduction(layout: Layout) -> Reduction | None:
    """What contributions are still to be reduced by; None where there are no contributions."""
    if isinstance(layout, Partial):
        return layout.op
    if isinstance(layout, Grid):
        return next((p.op for p in (layout.down, layout.across) if isinstance(p, Partial)), None)
    return None


def bare(layout: Layout) -> Layout:
    """The layout without ghosts."""
    if isinstance(layout, Grid):
        down, across = _bare(layout.down), _bare(layout.across)
        return layout if down is layout.down and across is layout.across else Grid(down, across)
    return layout if isinstance(layout, Outside) else _bare(layout)


def _bare(p: Placement) -> Placement:
    return Shard(p.axis, p.cuts) if isinstance(p, Shard) and p.ghosts != (0, 0) else p


def place(worker: int) -> int:
    """The worker at whose place this worker, or the driver, is."""
    return max(worker, 0)


@lru_cache(maxsize=4096)
def _even(axis: int, length: int, blocks: int) -> Shard:
    return Shard(axis, even_cuts(length, blocks))


def even_shard(axis: int, shape: tuple[int, ...], mesh: Mesh, *, ghosts: tuple[int, int] = (0, 0)) -> Shard:
    even = _even(axis, shape[axis], mesh.total_blocks)
    return even if ghosts == (0, 0) else Shard(axis, even.cuts, ghosts)


def at_first(shape: tuple[int, ...], mesh: Mesh) -> Shard:
    """The first block has everything: what the driver's place holds, or does for all."""
    return _first(shape[0], mesh.total_blocks)


@lru_cache(maxsize=4096)
def _first(length: int, blocks: int) -> Shard:
    return Shard(0, all_at(0, length, blocks))


def at_one_place(mesh: Mesh, direction: int, owner: int, axis: int, part: Cutting) -> Cutting:
    """An axis cut along one direction of a grid at one place of the other: a row of what is cut along both.


    `owner` is the block of that other direction's line; `part` divides the axis along the first.
    """
    sets: list[IndexSet] = []
    for block in range(mesh.total_blocks):
        row, column = divmod(mesh.worker_of(block), mesh.columns)
        at = row * mesh.blocks + block % mesh.blocks, column
        sets.append(part.owned(at[direction]) if at[1 - direction] == owner else (0, 0))
    return divided(axis, sets)


@lru_cache(maxsize=4096)
@lru_cache(maxsize=4096)
def column_cut(axis: int, length: int, mesh: Mesh) -> Cutting:
    """An axis cut evenly over all workers of a grid, counted column by column.

    What `across` cuts goes on being divided within columns: a sum along `down` so becomes whole with nothing to spare.
    """
    ends = even_cuts(length, mesh.total_blocks)
    sets = []
    for block in range(mesh.total_blocks):
        row, column = divmod(mesh.worker_of(block), mesh.columns)
        at = (column * mesh.rows + row) * mesh.blocks + block % mesh.blocks
        sets.append((ends[at], ends[at + 1]))
    return divided(axis, sets)


def even_divisions(axis: int, length: int, mesh: Mesh) -> list[Cutting]:
    """The even ways to cut an axis over all workers: by rows of workers, and on a grid by columns of them."""
    even = _even(axis, length, mesh.total_blocks)
    return [even, column_cut(axis, length, mesh)] if mesh.grid else [even]


def lines(layout: Layout, mesh: Mesh) -> tuple[tuple[Placement, Mesh], ...]:
    """Each placement of a layout with the line of workers it is on."""
    if isinstance(layout, Grid):
        return (layout.down, mesh.down), (layout.across, mesh.across)
    assert not isinstance(layout, Outside), layout
    return ((layout, mesh),)


def coordinates(layout: Layout, mesh: Mesh, worker: int) -> tuple[int, ...]:
    """Where a worker stands on each line of a layout."""
    return divmod(worker, mesh.columns) if isinstance(layout, Grid) else (worker,)


def check(layout: Layout, shape: tuple[int, ...], mesh: Mesh) -> None:
    """Assert that an array of this shape can have this layout on this mesh."""
    if isinstance(layout, Outside):
        return
    assert mesh.grid or not isinstance(layout, Grid), (layout, mesh)
    for part, line in lines(layout, mesh):
        if isinstance(part, Shard):
            assert part.axis < len(shape), (layout, shape)
            assert part.cuts[-1] == shape[part.axis], (layout, shape)
            assert len(part.cuts) == line.total_blocks + 1, (layout, mesh)
        elif isinstance(part, Piecewise):
            assert part.axis < len(shape) and part.length == shape[part.axis], (layout, shape)
            assert len(part.sets) == line.total_blocks, (layout, mesh)


def owned_box(
    layout: Layout, shape: tuple[int, ...], mesh: Mesh, *, worker: int | None = None, block: int | None = None
) -> Held:
    """The part of the array that a worker (all its blocks) or one block owns. For OnDriver the worker is DRIVER."""
    return _box(layout, shape, mesh, worker, block, ghosts=False)


def held_box(
    layout: Layout, shape: tuple[int, ...], mesh: Mesh, *, worker: int | None = None, block: int | None = None
) -> Held:
    """As owned_box, ghosts included: what is in memory there."""
    return _box(layout, shape, mesh, worker, block, ghosts=True)


def box_size(box: Box) -> int:
    return prod(high - low for low, high in box)


def overlap(a: Box, b: Box) -> Box:
    """What two boxes have in common; where that is nothing, a box without elements."""
    return tuple((max(a0, b0), max(min(a1, b1), max(a0, b0))) for (a0, a1), (b0, b1) in zip(a, b, strict=True))


def whole(shape: tuple[int, ...]) -> Box:
    return tuple((0, n) for n in shape)


def with_interval(box: Box, axis: int, interval: Interval) -> Box:
    return (*box[:axis], interval, *box[axis + 1 :])


@lru_cache(maxsize=1 << 14)
def _box(
    layout: Layout, shape: tuple[int, ...], mesh: Mesh, worker: int | None, block: int | None, *, ghosts: bool
) -> Held:
    assert (worker is None) != (block is None), "give a worker or a block"
    box: Held = whole(shape)
    if isinstance(layout, OnDriver):
        assert worker == DRIVER, (layout, worker, block)
        return box
    if block is None:
        assert worker is not None
        blocks = mesh.blocks_of(worker)
    else:
        worker = mesh.worker_of(block)
        blocks = range(block, block + 1)
    first, last = blocks[0] - worker * mesh.blocks, blocks[-1] - worker * mesh.blocks
    for (part, line), at in zip(lines(layout, mesh), coordinates(layout, mesh, worker), strict=True):
        if isinstance(part, Cutting):
            of_blocks: Callable[[int, int], IndexSet] = part.held if ghosts else part.owned
            start = at * line.blocks
            # Only the first line of a grid is cut into a worker's blocks.
            span = (start + first, start + last) if line.blocks == mesh.blocks else (start, start)
            box = (*box[: part.axis], of_blocks(*span), *box[part.axis + 1 :])
    return box
