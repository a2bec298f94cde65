"""How far tiles reach. In: passes that share tiles, a way to cut them. Out: the slices that each makes in every tile.

A pass that reads windows of what another makes takes more slices of it than it makes itself. These go from users to
makers, through the whole chain. What is stored or summed is shared out: each slice is *own* to one tile. What goes
beyond is a halo. Tiles that come one after the other on one thread leave it to the next: that one makes only what is
new (`Part.new`), and the slices it keeps are moved to where it looks for them.

Slices are counted along each value's own axis; `Way.begins` says where its first one is along the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tilewise.plan.steps import Pass, Tiled
from tilewise.plan.ways import MEAN, Way, space_of

Range = tuple[int, int]
Ranges = dict[int, Range]  # of each pass, by its first output; not there: it makes nothing


@dataclass(frozen=True)
class Part:
    """Tiles in a row that are alike. Ranges are those of the first; of every further tile, one length of a tile on.

    `whole` is what a tile makes without the one before it, `own` what of it is stored or summed.
    """

    first: int
    stop: int
    own: Ranges
    whole: Ranges
    new: Ranges | None  # what a tile makes that has what the one before it left; None: there is nothing to keep
    kept: Ranges  # what it has then


def _passes(group: Tiled, way: Way) -> list[Pass]:
    """The passes that are made tile by tile."""
    return [s for s in group.steps if isinstance(s, Pass) and way.at[s.outs[0]] != MEAN]


def _sums(step: Pass, way: Way) -> bool:
    return any(isinstance(way.at[x], str) for x in step.outs)


def _owners(group: Tiled, way: Way) -> list[Pass]:
    """The passes of which something is stored or summed."""
    return [s for s in _passes(group, way) if _sums(s, way) or any(x in group.outs for x in s.outs)]


def _length(step: Pass, way: Way, nodes: Sequence[Any]) -> int:
    return space_of(step, nodes)[way.dims[step.outs[0]]]


def placed(group: Tiled, way: Way, nodes: Sequence[Any]) -> tuple[Way, bool]:
    """The way from the first to the last slice that is stored or summed; whether all passes have all of these."""
    owners = _owners(group, way)
    least = min(way.begins[s.outs[0]] for s in owners)
    length = max(way.begins[s.outs[0]] + _length(s, way, nodes) for s in owners) - least
    begins = {x: b - least for x, b in way.begins.items()}
    even = all(begins[s.outs[0]] == 0 and _length(s, way, nodes) == length for s in _passes(group, way))
    return replace(way, length=length, begins=begins), even


def halos_of(group: Tiled, way: Way) -> dict[int, int]:
    """How many slices more than its own a tile makes, by pass."""
    own = {s.outs[0]: (-way.begins[s.outs[0]],) * 2 for s in _owners(group, way)}
    return {x: stop - start for x, (start, stop) in _needed(group, way, own).items()}


def counts_twice(group: Tiled, way: Way, halos: dict[int, int]) -> bool:
    """Whether several tiles would add the same slice to a sum."""
    return any(_sums(s, way) and halos[s.outs[0]] for s in _passes(group, way))


def parts_of(group: Tiled, way: Way, nodes: Sequence[Any], tile: int) -> list[Part]:
    """All tiles of a length."""
    tiles = -(-way.length // tile)
    owners = {s.outs[0]: (way.begins[s.outs[0]], _length(s, way, nodes)) for s in _owners(group, way)}
    ends = {q for begin, length in owners.values() for q in (begin, begin + length)}
    edges = sorted({0, tiles} | {q // tile for q in ends} | {-(-q // tile) for q in ends})
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


def _needed(group: Tiled, way: Way, own: Ranges) -> Ranges:
    """What each pass makes for what is own to a tile."""
    found = dict(own)
    for step in reversed(_passes(group, way)):
        if step.outs[0] in found:
            _ask(step, found[step.outs[0]], group, way, found)
    return found


def _kept(group: Tiled, way: Way, own: Ranges, whole: Ranges, tile: int) -> tuple[Ranges | None, Ranges]:
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
    few = all(stop - low <= tile for low, stop in kept.values())  # they are not moved onto themselves
    return (new, kept) if kept and few else (None, {})


def _ask(step: Pass, made: Range, group: Tiled, way: Way, found: Ranges) -> None:
    """Add what a pass reads of other passes to what these make."""
    for x in step.inputs:
        if isinstance(way.at.get(x), int):
            value, start = way.behind(x)
            maker = next(s.outs[0] for s in group.steps if isinstance(s, Pass) and value in s.outs)
            low, stop = made[0] + start, made[1] + start
            before = found.get(maker, (low, stop))
            found[maker] = min(before[0], low), max(before[1], stop)
