"""Halos of tiles. In: passes that share tiles, how they are cut. Out: the slices that each makes in every tile.

A pass that reads windows of another pass's result needs more slices of it than it makes itself. These needs are added
up from users to producers, through the whole chain. Slices that are stored or summed are *own* to exactly one tile; the
other slices a tile makes are its halo. Consecutive tiles on one thread share it: the next tile makes only what is new
(`Part.new`), and the slices it keeps are moved to where it expects them.

Slices are counted along each value's own axis; `CutAxis.begins` says where its first one is along the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tilewise.records import dataclass
from tilewise.stage.cut_axis import MEAN, CutAxis, space_of
from tilewise.stage.steps import Pass, Tiled

Range = tuple[int, int]
Ranges = dict[int, Range]  # of each pass, by its first output; not there: it makes nothing


@dataclass(frozen=True)
class Part:
    """Consecutive tiles that are alike. Ranges are those of the first; each further tile is one tile length on.

    `whole` is what a tile makes without the one before it, `own` what of it is stored or summed.
    """

    first: int
    stop: int
    own: Ranges
    whole: Ranges
    new: Ranges | None  # what a tile makes after the one before it; None: there is nothing to keep
    kept: Ranges  # what it has then


def _passes(group: Tiled, way: CutAxis) -> list[Pass]:
    """The passes that are made tile by tile."""
    return [s for s in group.steps if isinstance(s, Pass) and way.at[s.outs[0]] != MEAN]


def _sums(step: Pass, way: CutAxis) -> bool:
    return any(isinstance(way.at[x], str) for x in step.outs)


def _owners(group: Tiled, way: CutAxis) -> list[Pass]:
    """The passes of which something is stored or summed."""
    return [s for s in _passes(group, way) if _sums(s, way) or any(x in group.outs for x in s.outs)]


def _length(step: Pass, way: CutAxis, nodes: Sequence[Any]) -> int:
    pos = step.outs[0]
    return int((nodes[pos].dims if pos in way.updates else space_of(step, nodes))[way.dims[pos]])


def placed(group: Tiled, way: CutAxis, nodes: Sequence[Any]) -> tuple[CutAxis, bool]:
    """The cut from the first to the last slice that is stored or summed; whether all passes have all of these."""
    owners = _owners(group, way)
    least = min(way.begins[s.outs[0]] for s in owners)
    length = max(way.begins[s.outs[0]] + _length(s, way, nodes) for s in owners) - least
    begins = {x: b - least for x, b in way.begins.items()}
    even = all(begins[s.outs[0]] == 0 and _length(s, way, nodes) == length for s in _passes(group, way))
    return replace(way, length=length, begins=begins), even


def halos_of(group: Tiled, way: CutAxis) -> dict[int, int]:
    """How many slices more than its own a tile makes, by pass."""
    own = {s.outs[0]: (-way.begins[s.outs[0]],) * 2 for s in _owners(group, way)}
    return {x: stop - start for x, (start, stop) in _needed(group, way, own, inside=True).items()}


def counts_twice(group: Tiled, way: CutAxis, halos: dict[int, int]) -> bool:
    """Whether several tiles would add the same slice to a sum."""
    return any(_sums(s, way) and halos[s.outs[0]] for s in _passes(group, way))


def parts_of(group: Tiled, way: CutAxis, nodes: Sequence[Any], tile: int) -> list[Part]:
    """All tiles of a length."""
    tiles = -(-way.length // tile)
    owners = {s.outs[0]: (way.begins[s.outs[0]], _length(s, way, nodes)) for s in _owners(group, way)}
    ends = {q for begin, length in owners.values() for q in (begin, begin + length)}
    edges = sorted({0, tiles} | {q // tile for q in ends} | {-(-q // tile) for q in ends} | _turns(group, way, tile))
    parts = []
    for first, stop in pairwise(edges):
        own: Ranges = {}
        for x, (begin, length) in owners.items():
            low, high = max(first * tile - begin, 0), min((first + 1) * tile - begin, length)
            if low < high:
                own[x] = low, high
        whole = _needed(group, way, own)
        new, kept = _kept(group, way, own, whole, tile) if stop > first + 1 else (None, {})
        parts.append(Part(first, stop, own, whole, new, kept))
    return parts


def _turns(group: Tiled, way: CutAxis, tile: int) -> set[int]:
    """Tiles where the new elements of some update begin or end: between two of them, all tiles are alike."""
    tiles = -(-way.length // tile)
    own = {s.outs[0]: (-way.begins[s.outs[0]], tile - way.begins[s.outs[0]]) for s in _owners(group, way)}
    reach = _needed(group, way, own, inside=True)  # of tile 0, if it were far from the ends
    found: set[int] = set()
    for x, update in way.updates.items():
        if x in reach:
            low, stop = reach[x]
            for q in (update.start, update.stop):
                found.update(range((q - stop) // tile + 1, (q - low) // tile + 2))
    return {t for t in found if 0 <= t <= tiles}


def _needed(group: Tiled, way: CutAxis, own: Ranges, inside: bool = False) -> Ranges:
    """What each pass must make for a tile's own slices (`inside`: of a tile far from the ends of all updates)."""
    found = dict(own)
    for step in reversed(_passes(group, way)):
        if step.outs[0] in found:
            _ask(step, found[step.outs[0]], group, way, found, inside)
    return found


def renewed(way: CutAxis, pos: int, made: Range) -> Range:
    """The slices of its space that a pass goes over to make some slices of its result; low = stop: none."""
    update = way.updates.get(pos)
    if update is None:
        return made
    low = min(max(made[0], update.start), update.stop)
    return low - update.start, max(low, min(made[1], update.stop)) - update.start


def _kept(group: Tiled, way: CutAxis, own: Ranges, whole: Ranges, tile: int) -> tuple[Ranges | None, Ranges]:
    """What is new in a tile, and what it takes from the one before it."""
    found, new, kept = dict(own), {}, {}
    for step in reversed(_passes(group, way)):
        x = step.outs[0]
        if x in found:
            low, stop = found[x]
            assert stop == whole[x][1], "tiles end where they would without those before them"
            new[x] = max(low, stop - tile), stop
            if low < new[x][0]:
                kept[x] = low, new[x][0]
            _ask(step, new[x], group, way, found)
    few = all(stop - low <= tile for low, stop in kept.values())  # a move must not overlap itself
    return (new, kept) if kept and few else (None, {})


def _ask(step: Pass, made: Range, group: Tiled, way: CutAxis, found: Ranges, inside: bool = False) -> None:
    """Add what a pass reads of other passes to what these must make."""
    update = way.updates.get(step.outs[0])
    rows = renewed(way, step.outs[0], made)
    if update is not None and inside:
        rows = made[0] - update.start, made[1] - update.start
    asked = [(x, rows) for x in step.inputs if update is None or inside or rows[0] < rows[1]]
    if update is not None:
        asked.append((update.base, made))
    for x, (low, stop) in asked:
        if isinstance(way.at.get(x), int):
            value, start = way.behind(x)
            maker = next(s.outs[0] for s in group.steps if isinstance(s, Pass) and value in s.outs)
            before = found.get(maker, (low + start, stop + start))
            found[maker] = min(before[0], low + start), max(before[1], stop + start)
