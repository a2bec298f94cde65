"""Along which dim passes can be cut together. In: passes, types of values. Out: ways to cut them, and the best one.

A pass that is cut along one dim of its space reads, per tile, a slice of the inputs that have the dim and all of those
that have not; it makes slices, or, where the dim is reduced, contributions. Another pass may join it if it takes the
slices as they are made, or cuts an input as the first does: what they share then comes from memory once. It cannot
join if it needs a whole value of which there are only slices, or a sum to which there are only contributions.

The same question is asked twice: of the sizes at hand when a plan is made (tile.py), and of those of each run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tilewise.machine import machine
from tilewise.ops.const import Const
from tilewise.ops.views import Arrange, Window, axes_of
from tilewise.plan.steps import Call, Pass, Step, Tiled, View, makes

LEAST_BYTES = 1 << 20  # data that the caches hold anyway
WHOLE_BYTES = 1 << 20  # that every tile may need whole: they stay in the L2 cache beside the tile
TILE_BYTES = 256 << 10  # of all values of a tile together, where results hang on it: the same on all machines
SUM_TILES = 32 << 10, 768 << 10  # the same where sums are made over tiles, at least and at most
SUM_SHARE = 32  # such a tile has so many times the bytes of the sums, which every tile adds to
L2_SHARE = 8  # else a part of a core's L2 cache: scratch, code's own copies and what is streamed by need room, too
LEAST_TILE, MOST_TILE = 32 << 10, 512 << 10  # whatever the cache; more would not fit in a thread's scratch
PRODUCT_ROWS = 64  # of a tile in which BLAS multiplies matrices, at least: with fewer, it is far from its rate
ROWS = 32  # tiles are multiples of it where they can: sums along the tile then end where chunks of rows do
CHUNKS = 32  # of tiles, handed out to threads; each has its own sums
MERGED_BYTES = 16 << 20  # data from which on one time over memory less makes up for merging tiles
MERGED_SHARE = 32  # of the data, at most, are the sums that tiles have each of its own: they are merged by NumPy

MEAN = "mean"  # made of a sum over all tiles, after them; a tile takes the mean of its own part

At = int | str | None  # an axis; the reduction that adds contributions; None: all of it


@dataclass(frozen=True)
class Way:
    """One dim along which steps are cut: its length, how their values lie, which axes of inputs are cut."""

    length: int
    at: dict[int, At]  # what the steps make
    cut: frozenset[tuple[int, int]]  # of inputs: the array that is seen, and its axis
    dims: dict[int, int]  # of each pass (by its outputs): the dim of its space


def space_of(step: Pass, nodes: Sequence[Any]) -> tuple[int, ...]:
    """The sizes of the iteration space."""
    if step.letters is None:
        dims: tuple[int, ...] = nodes[step.space].dims
        return dims
    sizes = [1] * len(step.kernel.reduced)
    for x, letters in zip(step.inputs, step.letters, strict=True):
        for n, d in zip(nodes[x].dims, letters, strict=True):
            sizes[d] = n if sizes[d] == 1 else sizes[d]
    return tuple(sizes)


def single(step: Pass, nodes: Sequence[Any]) -> bool:
    """Whether a sum of products has one term each: NumPy gives the product, a zero with its sign."""
    reduced = step.kernel.reduced
    if step.kernel.outputs[0].key is not None:
        return False
    return any(reduced) and all(n == 1 for n, r in zip(space_of(step, nodes), reduced, strict=True) if r)


def axis_of(step: Pass, k: int, dim: int, nodes: Sequence[Any]) -> int | None:
    """The axis of input k that walks along a dim of the space."""
    shape = nodes[step.inputs[k]].dims
    if step.letters is not None:
        axis = step.letters[k].index(dim) if dim in step.letters[k] else -1
    else:
        axis = dim - (len(step.kernel.reduced) - len(shape))
    return None if axis < 0 or shape[axis] == 1 else axis


def out_axis(step: Pass, k: int, dim: int, nodes: Sequence[Any]) -> At:
    """Where a dim of the space is in output k: its axis, or the reduction if it is gone."""
    reduced, output = step.kernel.reduced, step.kernel.outputs[k]
    if output.key is not None:  # buckets, then what is kept
        return output.reduce if reduced[dim] else 1 + dim - sum(reduced[:dim])
    if output.stored or nodes[step.outs[k]].ndim == len(reduced):
        return output.reduce if output.reduce is not None and reduced[dim] else dim
    return output.reduce if reduced[dim] else dim - sum(reduced[:dim])


def drops_axes(step: Pass, k: int, node: Any) -> bool:
    """Whether output k has axes of length one where dims were reduced, of which the kernel knows nothing."""
    output = step.kernel.outputs[k]
    return not output.stored and output.key is None and node.ndim == len(step.kernel.reduced)


class Views:
    """Which array a position is a view of, and which of its axes each axis of the view walks along."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.nodes = nodes
        self.known: dict[int, tuple[int, tuple[int | None, ...]]] = {}

    def add(self, step: View) -> None:
        """A further view."""
        self.known[step.pos] = (step.input, view_axes(self.nodes[step.pos].op, self.nodes[step.pos].ndim))

    def source(self, pos: int, axis: int) -> tuple[int, int]:
        """The array behind a position, and its axis."""
        while pos in self.known:
            base, axes = self.known[pos]
            under = axes[axis]
            if under is None:
                return pos, axis
            pos, axis = base, under
        return pos, axis


def view_axes(op: Any, ndim: int) -> tuple[int | None, ...]:
    """The axis of the base that each axis of a view walks along; None where it is new, or cannot be told."""
    if isinstance(op, Window):
        axes = axes_of(op)
        return (None,) * ndim if axes is None else tuple(a.base for a in axes)
    if isinstance(op, Arrange):
        return op.axes
    return tuple(range(ndim))  # a Cut


def _whole(op: Any, base: Any, node: Any, axis: int) -> bool:
    """Whether a view has all of the base along one of its axes, in order."""
    if isinstance(op, Window):
        axes = axes_of(op)
        assert axes is not None
        return axes[axis].start == 0 and axes[axis].step == 1 and axes[axis].length == base
    return isinstance(op, Arrange)


def _long_dims(step: Pass, nodes: Sequence[Any]) -> list[tuple[int, int]]:
    """Dims to cut, and their lengths: across a short dim, one slice fills the caches."""
    space = space_of(step, nodes)
    return [(dim, length) for dim, length in enumerate(space) if 2 * length >= max(space)]


def first_ways(step: Pass, nodes: Sequence[Any], views: Views) -> list[Way]:
    """Every way to cut a step."""
    out = []
    for dim, length in _long_dims(step, nodes):
        if length > 1:
            way = _joined(Way(length, {}, frozenset(), {}), step, dim, nodes, views, free=True)
            if way is not None:
                out.append(way)
    return out


def further_ways(way: Way, step: Pass, nodes: Sequence[Any], views: Views) -> list[Way]:
    """Every way in which a step can go along with steps that are cut so."""
    out = []
    for dim, length in _long_dims(step, nodes):
        if length == way.length:
            found = _joined(way, step, dim, nodes, views, free=False)
            if found is not None:
                out.append(found)
    return out


def seen_way(way: Way, step: View, nodes: Sequence[Any]) -> Way | None:
    """The way with a view of what is made by tiles; None if a tile of the view is not a view of the tile."""
    at = way.at[step.input]
    op, node = nodes[step.pos].op, nodes[step.pos]
    if not isinstance(at, int):
        return None
    axes = view_axes(op, node.ndim)
    if at not in axes or not _whole(op, nodes[step.input].dims[at], node, axes.index(at)):
        return None
    if isinstance(op, Window) and not plain_window(op):
        return None
    return replace(way, at={**way.at, step.pos: axes.index(at)})


def plain_window(op: Window) -> bool:
    """Whether a window has all of its base, axes moved and new ones of length one."""
    axes = axes_of(op)
    assert axes is not None
    kept = [a for a in axes if a.base is not None]
    full = all(a.start == 0 and a.step == 1 and a.length == op.base_shape[a.base] for a in kept if a.base is not None)
    left = [n for d, n in enumerate(op.base_shape) if d not in {a.base for a in kept}]
    return full and all(n == 1 for n in left) and all(a.length == 1 for a in axes if a.base is None)


def _joined(way: Way, step: Pass, dim: int, nodes: Sequence[Any], views: Views, free: bool) -> Way | None:
    at, cut, linked = dict(way.at), set(way.cut), free
    own = None if step.centre is None or at.get(step.centre.mean) != MEAN else step.centre
    if own is not None and way.dims[own.total] != dim:
        return None
    for k, x in enumerate(step.inputs):
        axis = axis_of(step, k, dim, nodes)
        if own is not None and x == own.mean:
            continue
        if x in at:
            if axis is None or at[x] != axis:
                return None
            linked = True
        elif axis is not None:
            source = views.source(x, axis)
            linked = linked or source in cut
            cut.add(source)
    for k, pos in enumerate(step.outs):
        where = out_axis(step, k, dim, nodes)
        output = step.kernel.outputs[k]
        if isinstance(where, str) and (output.is_arg or output.scan):
            return None
        at[pos] = where
    return Way(way.length, at, frozenset(cut), {**way.dims, **dict.fromkeys(step.outs, dim)}) if linked else None


def mean_way(way: Way, step: Pass | Call, total: int) -> Way | None:
    """The way with a step that makes a mean of a sum over tiles: after them, while tiles take their own means."""
    return replace(way, at={**way.at, **dict.fromkeys(makes(step), MEAN)}) if way.at.get(total) == "add" else None


def centred(group: Tiled, way: Way) -> list[Pass]:
    """The sums of squared deviations that tiles take each about its own mean."""
    return [
        s for s in group.steps if isinstance(s, Pass) and s.centre is not None and way.at.get(s.centre.mean) == MEAN
    ]


def best_way(group: Tiled, nodes: Sequence[Any]) -> Way | None:
    """How to cut a group with the sizes at hand: so that the least is needed whole."""
    views = Views(nodes)
    ways: list[Way] | None = None
    totals = {s.centre.mean: s.centre.total for s in group.steps if isinstance(s, Pass) and s.centre is not None}
    for step in group.steps:
        if isinstance(step, View):
            views.add(step)
            ways = [w for way in ways or () if (w := seen_way(way, step, nodes)) is not None]
        elif ways is None:
            assert isinstance(step, Pass)
            ways = first_ways(step, nodes, views)
        else:
            late = [w for p in makes(step) if p in totals for way in ways if (w := mean_way(way, step, totals[p]))]
            if isinstance(step, Pass):
                late += [w for way in ways for w in further_ways(way, step, nodes, views)]
            ways = late
    return min(ways or (), key=lambda w: _burden(w, group, nodes), default=None)


def _burden(way: Way, group: Tiled, nodes: Sequence[Any]) -> tuple[int, int]:
    """Bytes that every tile needs whole or adds to; bytes whose slices are not contiguous."""
    whole = across = 0
    cut = {pos: axis for pos, axis in way.cut}
    for x in group.inputs:
        if x in cut:
            order = nodes[x].order
            across += nodes[x].nbytes * (cut[x] != (order[0] if order else 0))
        else:
            whole += nodes[x].nbytes
    whole += sum(nodes[x].nbytes for x, a in way.at.items() if isinstance(a, str))
    return whole, across


@dataclass(frozen=True)
class Tiling:
    """How a group runs: the dim it is cut along, slices per tile, tiles, and chunks of tiles with sums of their own."""

    way: Way
    tile: int
    tiles: int
    chunks: int
    each: int  # bytes of a slice, all values together
    loose: bool  # nothing is summed over tiles, nothing is left to BLAS: tiles of another length give the same


def with_tile(cut: Tiling, tile: int) -> Tiling:
    """The same cut, with tiles of another length."""
    tiles = -(-cut.way.length // tile)
    return replace(cut, tile=tile, tiles=tiles, chunks=min(tiles, CHUNKS))


def fitted(cut: Tiling, factor: float = 1.0) -> Tiling:
    """A loose cut with tiles that suit this machine's caches, or so many times as long."""
    assert cut.loose, "results hang on these tiles"
    room = min(max(machine().l2_bytes // L2_SHARE, LEAST_TILE), MOST_TILE)
    return with_tile(cut, min(tile_length(cut.each, int(room * factor)), cut.way.length))


def tiling(group: Tiled, nodes: Sequence[Any], forced: int | None = None) -> Tiling | None:
    """The tiles of a group with the sizes at hand; None if its passes are better run one by one."""
    passes = [s for s in group.steps if isinstance(s, Pass)]
    if any(0 in space_of(s, nodes) or (s.letters is not None and single(s, nodes)) for s in passes):
        return None
    way = best_way(group, nodes)
    if way is None:
        return None
    own = centred(group, way)
    if any(not _counted(s, nodes) for s in own):
        return None
    least = MERGED_BYTES if own else LEAST_BYTES
    each = sum(_slice_bytes(nodes[x], axis) for x, axis in _sliced(group, way).items())
    cut = {x for x, _ in way.cut}
    whole = bytes_of(nodes, [x for x, base in zip(group.inputs, group.sources, strict=True) if not {x, base} & cut])
    if (each * way.length < least or whole > WHOLE_BYTES) and forced is None:
        return None
    summed = [x for x, at in way.at.items() if isinstance(at, str)]
    sums = bytes_of(nodes, summed)
    blas = any(s.blas for s in passes)
    room = TILE_BYTES
    if summed and not own:  # little sums: the L1 cache holds the tile
        room = min(max(SUM_SHARE * sums, TILE_BYTES if blas else SUM_TILES[0]), SUM_TILES[1])
    tile = min(forced or tile_length(each, room), way.length)
    if tile < PRODUCT_ROWS and blas and forced is None:
        return None
    tiles = -(-way.length // tile)
    chunks = min(tiles, CHUNKS)
    if sums * chunks > each * way.length // 4 and forced is None:
        return None
    if own and sums * tiles > each * way.length // MERGED_SHARE and forced is None:
        return None
    return Tiling(way, tile, tiles, chunks, each, forced is None and not blas and not summed)


def as_run(steps: Sequence[Step], nodes: Sequence[Any]) -> list[Step]:
    """The steps for the sizes at hand: deviations from a mean whose tiles are not merged come after it."""
    out: list[Step] = []
    for step in steps:
        merges = isinstance(step, Tiled) and any(isinstance(s, Pass) and s.centre is not None for s in step.steps)
        if isinstance(step, Tiled) and merges and tiling(step, nodes) is None:
            *first, last = step.steps
            out += [*first, replace(last, frees=step.frees)]
        else:
            out.append(step)
    return out


def _counted(step: Pass, nodes: Sequence[Any]) -> bool:
    """Whether what deviations are taken from is a mean: a sum over as many as there are, divided by their number."""
    assert step.centre is not None
    count = nodes[step.centre.count].op
    sizes = zip(space_of(step, nodes), step.kernel.reduced, strict=True)
    if not isinstance(count, Const):
        return False
    return bool(count.value == count.value.dtype.type(prod(n for n, r in sizes if r)))  # in the dtype of the sum


def tile_length(each: int, room: int = TILE_BYTES) -> int:
    """How many slices of some bytes a tile has."""
    length = max(1, room // max(1, each))
    return length // ROWS * ROWS if length >= ROWS else length


def _sliced(group: Tiled, way: Way) -> dict[int, int]:
    """The values that are cut, with their axes."""
    seen = {s.pos for s in group.steps if isinstance(s, View)}
    found = {x: a for x, a in way.at.items() if isinstance(a, int) and x not in seen}
    source = dict(zip(group.inputs, group.sources, strict=True))
    seen = set()
    for x, axis in sorted(way.cut):
        if source.get(x, x) not in seen:  # another view of the same memory
            seen.add(source.get(x, x))
            found.setdefault(x, axis)
    return found


def _slice_bytes(node: Any, axis: int) -> int:
    return int(prod(node.dims) // max(1, node.dims[axis]) * node.dtype.itemsize)


def bytes_of(nodes: Sequence[Any], positions: Iterable[int]) -> int:
    """The size of some values together."""
    return sum(prod(nodes[x].dims) * nodes[x].dtype.itemsize for x in positions)
