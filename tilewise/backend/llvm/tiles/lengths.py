"""How passes that share tiles are cut. In: a `Tiled`, the sizes at hand. Out: a `Tiling`; None: they run one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from tilewise import rounding
from tilewise.backend.llvm.tiles.tuning_records import FACTORS, USUAL
from tilewise.machine import machine
from tilewise.ops.const import Const
from tilewise.ops.moments import Terms
from tilewise.stage.cut_axis import CutAxis, best_way, centred, single, space_of
from tilewise.stage.halo import counts_twice, halos_of, placed
from tilewise.stage.steps import Pass, Tiled, View
from tilewise.stage.tiles import Tiling, bytes_of, most_slices, slice_bytes
from tilewise.tuning import tuned


def with_tile(cut: Tiling, tile: int) -> Tiling:
    """The same cut, with tiles of another length."""
    tiles = -(-cut.way.length // tile)
    return replace(cut, tile=tile, tiles=tiles, chunks=_chunks(cut.way, tiles, cut.halo, cut.each, cut.any_length))


def _chunks(way: CutAxis, tiles: int, halo: int, each: int, any_length: bool) -> int:
    """Chunks of tiles: the first tile of each makes the slices of its halo once more."""
    chunks = rounding.TILE_CHUNKS
    most = min(tiles, chunks, way.length // (rounding.HALO_SHARE * halo) if halo else chunks)
    return max(1, min(most, each * way.length // tuned().tile_chunk_bytes) if any_length else most)


def fitted(cut: Tiling, factor: float = 1.0) -> Tiling:
    """A cut whose tiles may have any length, with tiles that suit this machine's caches, or so many times as long."""
    assert cut.any_length, "results hang on these tiles"
    length = max(tile_length(cut.each, _room(factor)), rounding.HALO_TILES * cut.halo)
    return with_tile(cut, min(length, cut.way.length))


def offered(cut: Tiling) -> list[float]:
    """Factors of the estimate that are other lengths than it, and than each other, in the order they are tried."""
    lengths = {fitted(cut).tile: USUAL}
    for factor in FACTORS:
        lengths.setdefault(fitted(cut, factor).tile, factor)
    return [f for f in lengths.values() if f != USUAL]


def _room(factor: float) -> int:
    """Bytes of all values of a tile: an estimate, or so many times it, between what the L1 and the L2 cache hold.

    These are the bounds that Parakeet's search starts from: a tile in the L1 cache is the pessimist's, one that fills
    the L2 cache the optimist's.
    """
    m, figures = machine(), tuned()
    least = max(1, m.l1_bytes // figures.tile_l1_share)
    usual = min(max(m.l2_bytes // figures.tile_l2_share, least), figures.tile_most_bytes)
    return min(max(int(usual * factor), least), max(m.l2_bytes, least))


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
    if halo * rounding.SIMILAR > way.length or ((halo or not even) and own) or counts_twice(group, way, halos):
        return None
    summed = [x for x, at in way.at.items() if isinstance(at, str)]
    least = rounding.MERGED_AT_BYTES if own else rounding.SUMMED_AT_BYTES if summed else rounding.TILED_AT_BYTES
    slices = {x: slice_bytes(nodes[x], axis) for x, axis in _sliced(group, way).items()}
    each = sum(slices.values())
    cut = {x for x, _ in way.cut}
    whole = bytes_of(nodes, [x for x, base in zip(group.inputs, group.sources, strict=True) if not {x, base} & cut])
    if (each * way.length < least or whole > rounding.WHOLE_BYTES) and forced is None:
        return None
    sums = bytes_of(nodes, summed)
    blas = any(s.blas for s in passes)
    room = rounding.TILE_BYTES
    if summed and not own:  # small sums: the L1 cache holds the tile
        least, most = rounding.SUM_TILES
        room = min(max(rounding.SUM_SHARE * sums, rounding.TILE_BYTES if blas else least), most)
    tile = forced or tile_length(each, room)
    if summed and not own and forced is None:
        tile = min(tile, tile_length(sum(slices.get(x, 0) for x in group.inputs), rounding.SUM_INPUTS))
    if halo and forced is None:
        tile = max(min(tile, most_slices(group, way, nodes, halos, rounding.HALO_BYTES)), rounding.HALO_TILES * halo)
        if tile > most_slices(group, way, nodes, halos, rounding.HALO_BYTES):
            return None
    tile = min(tile, way.length)
    if forced is None and ((tile < rounding.PRODUCT_ROWS and blas) or _in_shreds(group, way, nodes, tile)):
        return None
    tiles = -(-way.length // tile)
    any_length = forced is None and not blas and not summed
    chunks = _chunks(way, tiles, halo, each, any_length)
    if sums * chunks > each * way.length // 4 and forced is None:
        return None
    if own and sums * tiles > each * way.length // rounding.MERGED_SHARE and forced is None:
        return None
    return Tiling(way, tile, tiles, chunks, each, halo, any_length)


def _in_shreds(group: Tiled, way: CutAxis, nodes: Sequence[Any], tile: int) -> bool:
    """Whether tiles read short pieces of rows, far apart, of arrays that the caches do not hold."""
    inputs = [(nodes[x], axis) for x, axis in way.cut if x in group.inputs]
    outs = [(nodes[x], axis) for x in group.outs if isinstance(axis := way.at.get(x), int)]
    far = ((n, axis) for n, axis in (*inputs, *outs) if n.ndim > 1 and n.nbytes >= rounding.FAR_BYTES)
    across = (n for n, axis in far if axis == (n.order[-1] if n.order else n.ndim - 1))
    return any(tile * n.dtype.itemsize < rounding.SHRED_BYTES for n in across)


def _counted(step: Pass, nodes: Sequence[Any]) -> bool:
    """Whether what deviations are taken from is a mean: a sum over as many as there are, divided by their number."""
    assert step.centre is not None
    count = nodes[step.centre.count].op
    sizes = zip(space_of(step, nodes), step.kernel.reduced, strict=True)
    if not isinstance(count, Const | Terms) or count.value is None:
        return False
    return bool(count.value == count.value.dtype.type(prod(n for n, r in sizes if r)))  # in the dtype of the sum


def tile_length(each: int, room: int) -> int:
    """How many slices of some bytes a tile has."""
    length = max(1, room // max(1, each))
    rows = rounding.TILE_ROWS
    return length // rows * rows if length >= rows else length


def _sliced(group: Tiled, way: CutAxis) -> dict[int, int]:
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
