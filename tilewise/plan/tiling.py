"""How passes that share tiles are cut. In: a `Tiled`, the sizes at hand. Out: a `Tiling`; None: they run one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log2, prod
from typing import Any

from tilewise.machine import machine
from tilewise.ops.const import Const
from tilewise.plan.reach import counts_twice, halos_of, placed
from tilewise.plan.steps import Pass, Step, Tiled, View, passes
from tilewise.plan.ways import SIMILAR, Way, best_way, centred, single, space_of

LEAST_BYTES = 1 << 20  # data that the caches hold anyway
SUMMED_BYTES = 3 << 20  # the same where tiles have sums, which someone must add up: 100 to 200 us
WHOLE_BYTES = 1 << 20  # that every tile may need whole: they stay in the L2 cache beside the tile
TILE_BYTES = 256 << 10  # of all values of a tile together, where results hang on it: the same on all machines
SUM_TILES = 32 << 10, 768 << 10  # the same where sums are made over tiles, at least and at most
SUM_INPUTS = 352 << 10  # of inputs in such a tile, at most: passes after the first find them in the L2 cache
SUM_SHARE = 32  # such a tile has so many times the bytes of the sums, which every tile adds to
L2_SHARE = 8  # else a part of a core's L2 cache: scratch, code's own copies and what is streamed by need room, too
LEAST_TILE, MOST_TILE = 32 << 10, 512 << 10  # whatever the cache; more would not fit in a thread's scratch
PRODUCT_ROWS = 64  # of a tile in which BLAS multiplies matrices, at least: with fewer, it is far from its rate
ROWS = 32  # tiles are multiples of it where they can: sums along the tile then end where chunks of rows do
CHUNKS = 32  # of tiles, handed out to threads; each has its own sums
CHUNK_BYTES = 256 << 10  # of all values in a chunk, at least, where results do not hang on it: some 25 us of work
MERGED_BYTES = 16 << 20  # data from which on one time over memory less makes up for merging tiles
MERGED_SHARE = 32  # of the data, at most, are the sums that tiles have each of its own: they are merged by NumPy
FAR_BYTES, SHRED_BYTES = 4 << 20, 1024  # of an array that the caches do not hold; of its rows, at least, in a tile
HALO_BYTES = 1472 << 10  # of scratch of a tile that has a halo, at most: of an L2 cache of 2 MiB, or of the next one
CLASSES = (
    4  # of bytes per slice, from one power of two to the next, that have plans of their own where parts are updated
)
HALO_TILES = 2  # tiles are at least so many times as long as their halo: what is kept is moved
HALO_SHARE = 8  # chunks have at least so many times the slices that the first tile of each makes again


@dataclass(frozen=True)
class Tiling:
    """How a group runs: the dim it is cut along, slices per tile, tiles, and chunks of tiles with sums of their own."""

    way: Way
    tile: int
    tiles: int
    chunks: int
    each: int  # bytes of a slice, all values together
    halo: int  # slices that some pass makes in a tile beyond the tile's own
    loose: bool  # nothing is summed over tiles, nothing is left to BLAS: tiles of another length give the same


def with_tile(cut: Tiling, tile: int) -> Tiling:
    """The same cut, with tiles of another length."""
    tiles = -(-cut.way.length // tile)
    return replace(cut, tile=tile, tiles=tiles, chunks=_chunks(cut.way, tiles, cut.halo, cut.each, cut.loose))


def _chunks(way: Way, tiles: int, halo: int, each: int, loose: bool) -> int:
    """Chunks of tiles: the first tile of each makes the slices of its halo once more."""
    most = min(tiles, CHUNKS, way.length // (HALO_SHARE * halo) if halo else CHUNKS)
    return max(1, min(most, each * way.length // CHUNK_BYTES) if loose else most)


def fitted(cut: Tiling, factor: float = 1.0) -> Tiling:
    """A loose cut with tiles that suit this machine's caches, or so many times as long."""
    assert cut.loose, "results hang on these tiles"
    room = min(max(machine().l2_bytes // L2_SHARE, LEAST_TILE), MOST_TILE)
    return with_tile(cut, min(max(tile_length(cut.each, int(room * factor)), HALO_TILES * cut.halo), cut.way.length))


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
    way, even = placed(group, way, nodes)
    halos = halos_of(group, way)
    halo = max(halos.values(), default=0)
    if halo * SIMILAR > way.length or ((halo or not even) and own) or counts_twice(group, way, halos):
        return None
    summed = [x for x, at in way.at.items() if isinstance(at, str)]
    least = MERGED_BYTES if own else SUMMED_BYTES if summed else LEAST_BYTES
    slices = {x: _slice_bytes(nodes[x], axis) for x, axis in _sliced(group, way).items()}
    each = sum(slices.values())
    cut = {x for x, _ in way.cut}
    whole = bytes_of(nodes, [x for x, base in zip(group.inputs, group.sources, strict=True) if not {x, base} & cut])
    if (each * way.length < least or whole > WHOLE_BYTES) and forced is None:
        return None
    sums = bytes_of(nodes, summed)
    blas = any(s.blas for s in passes)
    room = TILE_BYTES
    if summed and not own:  # little sums: the L1 cache holds the tile
        room = min(max(SUM_SHARE * sums, TILE_BYTES if blas else SUM_TILES[0]), SUM_TILES[1])
    tile = forced or tile_length(each, room)
    if summed and not own and forced is None:
        tile = min(tile, tile_length(sum(slices.get(x, 0) for x in group.inputs), SUM_INPUTS))
    if halo and forced is None:
        tile = max(min(tile, _most(group, way, nodes, halos)), HALO_TILES * halo)
        if tile > _most(group, way, nodes, halos):
            return None
    tile = min(tile, way.length)
    if forced is None and ((tile < PRODUCT_ROWS and blas) or _in_shreds(group, way, nodes, tile)):
        return None
    tiles = -(-way.length // tile)
    loose = forced is None and not blas and not summed
    chunks = _chunks(way, tiles, halo, each, loose)
    if sums * chunks > each * way.length // 4 and forced is None:
        return None
    if own and sums * tiles > each * way.length // MERGED_SHARE and forced is None:
        return None
    return Tiling(way, tile, tiles, chunks, each, halo, loose)


def _in_shreds(group: Tiled, way: Way, nodes: Sequence[Any], tile: int) -> bool:
    """Whether tiles take a few numbers from here and a few from there, in memory that the caches do not hold."""
    inputs = [(nodes[x], axis) for x, axis in way.cut if x in group.inputs]
    outs = [(nodes[x], axis) for x in group.outs if isinstance(axis := way.at.get(x), int)]
    far = ((n, axis) for n, axis in (*inputs, *outs) if n.ndim > 1 and n.nbytes >= FAR_BYTES)
    across = (n for n, axis in far if axis == (n.order[-1] if n.order else n.ndim - 1))
    return any(tile * n.dtype.itemsize < SHRED_BYTES for n in across)


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


def fits(group: Tiled, way: Way, nodes: Sequence[Any]) -> bool:
    """Whether a tile with its halos fits into the caches, and no sum counts a slice twice.

    Where parts are updated, plans are made for slices of up to the most bytes of their class: groups that just fit
    would not with a little more.
    """
    halos = halos_of(group, way)
    spare = 2 ** (1 / CLASSES) if way.updates else 1.0
    most = _most(group, way, nodes, halos, int(HALO_BYTES / spare))
    return HALO_TILES * max(halos.values()) <= most and not counts_twice(group, way, halos)


def slice_class(node: Any) -> int:
    """Of updates: how long slices are, for plans that hang on it."""
    if not node.known or not node.size:
        return 0
    return int(log2(node.nbytes / max(node.dims, default=1)) * CLASSES)


def _most(group: Tiled, way: Way, nodes: Sequence[Any], halos: dict[int, int], room: int = HALO_BYTES) -> int:
    """The slices of a tile whose scratch fits into the caches: all that is not stored as it is made."""
    each = more = 0
    for step in passes(group):
        halo = halos.get(step.outs[0], 0)
        for x in step.outs:
            axis = way.at[x]
            if isinstance(axis, int) and (halo or x not in group.outs):
                each += _slice_bytes(nodes[x], axis)
                more += _slice_bytes(nodes[x], axis) * halo
    return (room - more) // max(1, each)


def overlap_bytes(group: Tiled, cut: Tiling, nodes: Sequence[Any]) -> int:
    """Bytes of inputs that two neighbouring tiles both read, if none leaves anything to the other."""
    halos, axes = halos_of(group, cut.way), dict(cut.way.cut)
    source = dict(zip(group.inputs, group.sources, strict=True))
    seen: dict[int, int] = {}
    for step in passes(group):
        for base in {source[x] for x in step.inputs if source.get(x) in axes}:
            seen[base] = max(seen.get(base, 0), halos.get(step.outs[0], 0))
    return sum(n * _slice_bytes(nodes[x], axes[x]) for x, n in seen.items())


def _slice_bytes(node: Any, axis: int) -> int:
    return int(prod(node.dims) // max(1, node.dims[axis]) * node.dtype.itemsize)


def bytes_of(nodes: Sequence[Any], positions: Iterable[int]) -> int:
    """The size of some values together."""
    return sum(prod(nodes[x].dims) * nodes[x].dtype.itemsize for x in positions)
