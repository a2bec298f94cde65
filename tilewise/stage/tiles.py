"""Tiles of passes: what is the same for all backends. In: passes, how they are cut. Out: bytes of slices, what fits.

How long tiles are, and whether they pay, is decided by the backend (`backend.base.HostBackend.tiling`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import log2, prod
from typing import Any

from tilewise import rounding
from tilewise.ops.views import Cut, Window
from tilewise.records import dataclass
from tilewise.stage.cut_axis import CutAxis
from tilewise.stage.halo import counts_twice, halos_of
from tilewise.stage.steps import Pass, Step, Tiled, passes

CLASSES = 4  # of bytes per slice, between powers of two, that have plans of their own where parts are updated


@dataclass(frozen=True)
class Tiling:
    """How a group runs: the dim it is cut along, slices per tile, tiles, and chunks of tiles with sums of their own."""

    way: CutAxis
    tile: int
    tiles: int
    chunks: int
    each: int  # bytes of a slice, all values together
    halo: int  # slices that some pass makes in a tile beyond the tile's own
    any_length: bool  # no sums over tiles and no BLAS: tiles of another length give the same bits


@dataclass(frozen=True)
class Formed:
    """Passes as they run: over the nodes of a graph and some windows more, each of a position, as an operator says."""

    group: Tiled
    nodes: Sequence[Any]
    shown: tuple[tuple[int, Window | Cut], ...]
    cut: Tiling


def fits(group: Tiled, way: CutAxis, nodes: Sequence[Any], room: int) -> bool:
    """Whether a tile with its halos fits into some bytes of scratch, and no sum counts a slice twice.

    Where parts are updated, plans are made for slices of up to the most bytes of their class: groups that just fit
    would not with a little more.
    """
    halos = halos_of(group, way)
    spare = 2 ** (1 / CLASSES) if way.updates else 1.0
    most = most_slices(group, way, nodes, halos, int(room / spare))
    return rounding.HALO_TILES * max(halos.values()) <= most and not counts_twice(group, way, halos)


def slice_class(node: Any) -> int:
    """The size class of slices of updates: plans depend on it."""
    if not node.known or not node.size:
        return 0
    return int(log2(node.nbytes / max(node.dims, default=1)) * CLASSES)


def most_slices(group: Tiled, way: CutAxis, nodes: Sequence[Any], halos: dict[int, int], room: int) -> int:
    """The slices of a tile whose scratch fits into the caches: all that is not stored as it is made."""
    each = more = 0
    for step in passes(group):
        halo = halos.get(step.outs[0], 0)
        for x in step.outs:
            axis = way.at[x]
            if isinstance(axis, int) and (halo or x not in group.outs):
                each += slice_bytes(nodes[x], axis)
                more += slice_bytes(nodes[x], axis) * halo
    return (room - more) // max(1, each)


def overlap_bytes(group: Tiled, cut: Tiling, nodes: Sequence[Any]) -> int:
    """Bytes of inputs that two neighbouring tiles both read, if neither keeps slices for the other."""
    halos, axes = halos_of(group, cut.way), dict(cut.way.cut)
    source = dict(zip(group.inputs, group.sources, strict=True))
    seen: dict[int, int] = {}
    for step in passes(group):
        for base in {source[x] for x in step.inputs if source.get(x) in axes}:
            seen[base] = max(seen.get(base, 0), halos.get(step.outs[0], 0))
    return sum(n * slice_bytes(nodes[x], axes[x]) for x, n in seen.items())


def slice_bytes(node: Any, axis: int) -> int:
    """The size of one slice of a value."""
    return int(prod(node.dims) // max(1, node.dims[axis]) * node.dtype.itemsize)


def bytes_of(nodes: Sequence[Any], positions: Iterable[int]) -> int:
    """The size of some values together."""
    return sum(prod(nodes[x].dims) * nodes[x].dtype.itemsize for x in positions)


def as_run(
    steps: Sequence[Step], nodes: Sequence[Any], tiling: Callable[[Tiled, Sequence[Any]], Tiling | None]
) -> list[Step]:
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
