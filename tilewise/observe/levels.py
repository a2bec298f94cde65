"""Where to draw a graph. In: sizes of boxes, which stripe each is in, links. Out: places of boxes and bends of links.

Levels by longest path within a stripe, order within a level by barycentres, places by least squares: a box is drawn as
near to the middle of its neighbours as its own neighbours in the level allow. Links over several levels get a place in
each, so that they pass between boxes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import pairwise

from tilewise.records import dataclass

Point = tuple[float, float]
SIDE, LEVEL, STRIPE = 22.0, 34.0, 30.0  # free space between boxes, levels, and (in addition) stripes
THREAD = 12.0  # the width of a link that passes a level
STRAIGHT = 6.0  # how much more such a place counts than a box: a long link bends little
SWEEPS = 24


@dataclass(eq=False)
class _Spot:
    """A box, or a link's place in a level."""

    level: int
    width: float
    height: float
    index: int | None  # of the box
    ups: list[_Spot] = field(default_factory=list)
    downs: list[_Spot] = field(default_factory=list)
    x: float = 0.0
    rank: int = 0


@dataclass(frozen=True)
class Arranged:
    """Centres of boxes, points of links from top to bottom, top and bottom of every stripe, the size of it all."""

    centres: tuple[Point, ...]
    paths: tuple[tuple[Point, ...], ...]
    stripes: dict[int, tuple[float, float]]
    width: float
    height: float


def arrange(sizes: Sequence[Point], stripes: Sequence[int], links: Sequence[tuple[int, int]]) -> Arranged:
    """Places for boxes of some sizes; no link may lead to a lower stripe."""
    levels, stripe_of = _levels(stripes, links)
    spots = [_Spot(level, w, h, i) for i, (level, (w, h)) in enumerate(zip(levels, sizes, strict=True))]
    chains = [_chain(spots[a], spots[b]) for a, b in links]
    rows: list[list[_Spot]] = [[] for _ in stripe_of]
    for spot in [*spots, *(s for chain in chains for s in chain[1:-1])]:
        rows[spot.level].append(spot)
    _order(rows)
    _place(rows)
    for chain in chains:
        _straighten(chain[1:-1], rows)
    left = min((s.x - s.width / 2 for row in rows for s in row), default=0.0)
    right = max((s.x + s.width / 2 for row in rows for s in row), default=0.0)
    tops, extents, height = _heights(rows, stripe_of)

    for s in (s for row in rows for s in row):
        s.x -= left
    middle = [top + max(s.height for s in row) / 2 for top, row in zip(tops, rows, strict=True)]
    paths = tuple(tuple(_points(chain, tops, middle)) for chain in chains)
    return Arranged(tuple((s.x, middle[s.level]) for s in spots), paths, extents, right - left, height)


def _levels(stripes: Sequence[int], links: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """The level of every box, and the stripe of every level."""
    inner = [(a, b) for a, b in links if stripes[a] == stripes[b]]
    depth = _depths(len(stripes), inner)
    first_user: dict[int, int] = {}
    for a, b in inner:
        first_user[a] = min(first_user.get(a, depth[b]), depth[b])
    fed = {b for _, b in inner}
    for a, user in first_user.items():  # what needs nothing in its stripe stands right above what needs it
        if a not in fed:
            depth[a] = user - 1
    start: dict[int, int] = {}
    stripe_of: list[int] = []
    for stripe in sorted(set(stripes)):
        start[stripe] = len(stripe_of)
        stripe_of += [stripe] * (1 + max(d for d, s in zip(depth, stripes, strict=True) if s == stripe))
    return [start[s] + d for s, d in zip(stripes, depth, strict=True)], stripe_of


def _depths(count: int, links: Iterable[tuple[int, int]]) -> list[int]:
    """The longest path to every box; a box has links from earlier boxes only."""
    ins: list[list[int]] = [[] for _ in range(count)]
    for a, b in links:
        assert a < b, "boxes come in an order in which they can be made"
        ins[b].append(a)
    depth: list[int] = []
    for b in range(count):
        depth.append(1 + max((depth[a] for a in ins[b]), default=-1))
    return depth


def _chain(a: _Spot, b: _Spot) -> list[_Spot]:
    """From a box to another, with a spot in every level between."""
    chain = [a, *(_Spot(level, THREAD, 0.0, None) for level in range(a.level + 1, b.level)), b]
    for upper, lower in pairwise(chain):
        upper.downs.append(lower)
        lower.ups.append(upper)
    return chain


def _order(rows: list[list[_Spot]]) -> None:
    """Order each level by the middle of its neighbours, down and up in turn; the order with fewest crossings stays."""
    best, least = [list(row) for row in rows], None
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            for rank, s in enumerate(row):
                s.rank = rank
            row.sort(key=lambda s: _middle(s, s.ups if down else s.downs))
            for rank, s in enumerate(row):
                s.rank = rank
        crossed = _crossings(rows)
        if least is None or crossed < least:
            best, least = [list(row) for row in rows], crossed
        if not crossed:
            break
    for row, kept in zip(rows, best, strict=True):
        row[:] = kept


def _middle(s: _Spot, near: Sequence[_Spot]) -> float:
    return sum(n.rank for n in near) / len(near) if near else float(s.rank)


def _crossings(rows: Sequence[Sequence[_Spot]]) -> int:
    count = 0
    for row in rows:
        ends = [d.rank for s in row for d in sorted(s.downs, key=lambda d: d.rank)]
        count += sum(a > b for i, b in enumerate(ends) for a in ends[:i])
    return count


def _place(rows: Sequence[Sequence[_Spot]]) -> None:
    for row in rows:
        x = 0.0
        for s in row:
            s.x = x + s.width / 2
            x += s.width + SIDE
    for sweep in range(SWEEPS):
        turn = sweep % 3  # from above, from below, from both
        for row in rows if turn != 1 else reversed(rows):
            wishes = []
            for s in row:
                near = (s.ups if turn == 0 else s.downs if turn == 1 else s.ups + s.downs) or s.ups + s.downs
                wishes.append(sum(n.x for n in near) / len(near) if near else s.x)
            _settle(row, wishes)


def _settle(row: Sequence[_Spot], wishes: Sequence[float]) -> None:
    """The places nearest to the wishes, in squares, that keep the order and the distances of a level."""
    offset, offsets = 0.0, []
    for k, s in enumerate(row):
        offset += 0.0 if not k else (row[k - 1].width + s.width) / 2 + SIDE
        offsets.append(offset)
    groups: list[tuple[float, float, int]] = []  # sum of wishes less offsets, sum of weights, how many
    for s, wish, off in zip(row, wishes, offsets, strict=True):
        weight = STRAIGHT if s.index is None else 1.0
        total, weights, n = weight * (wish - off), weight, 1
        while groups and groups[-1][0] / groups[-1][1] > total / weights:
            before = groups.pop()
            total, weights, n = total + before[0], weights + before[1], n + before[2]
        groups.append((total, weights, n))
    bases = [total / weights for total, weights, n in groups for _ in range(n)]
    for s, base, off in zip(row, bases, offsets, strict=True):
        s.x = base + off


def _straighten(chain: Sequence[_Spot], rows: Sequence[Sequence[_Spot]]) -> None:
    """Let a link run straight through as many levels as its neighbours there leave room for."""
    run: list[_Spot] = []
    low, high = -math.inf, math.inf
    for s in chain:
        row = rows[s.level]
        k = row.index(s)
        left = row[k - 1].x + (row[k - 1].width + s.width) / 2 + SIDE if k else -math.inf
        right = row[k + 1].x - (row[k + 1].width + s.width) / 2 - SIDE if k + 1 < len(row) else math.inf
        if max(low, left) > min(high, right):
            _align(run, low, high)
            run, low, high = [], -math.inf, math.inf
        run.append(s)
        low, high = max(low, left), min(high, right)
    _align(run, low, high)


def _align(run: Sequence[_Spot], low: float, high: float) -> None:
    for s in run:
        s.x = min(max(sum(t.x for t in run) / len(run), low), high) if s is run[0] else run[0].x


def _heights(
    rows: Sequence[Sequence[_Spot]], stripe_of: Sequence[int]
) -> tuple[list[float], dict[int, tuple[float, float]], float]:
    """The top of every level, top and bottom of every stripe, and the bottom of all."""
    y, tops = STRIPE / 2, []
    extents: dict[int, tuple[float, float]] = {}
    for level, row in enumerate(rows):
        if level:
            y += LEVEL + (STRIPE if stripe_of[level] != stripe_of[level - 1] else 0.0)
        tops.append(y)
        bottom = y + max(s.height for s in row)
        extents[stripe_of[level]] = (extents.get(stripe_of[level], (y, y))[0], bottom)
        y = bottom
    return tops, extents, y + STRIPE / 2


def _points(chain: Sequence[_Spot], tops: Sequence[float], middle: Sequence[float]) -> Iterable[Point]:
    """The link's points: out of the bottom of the first box, straight through levels, into the top of the last."""
    first, last = chain[0], chain[-1]
    yield _port(first, first.downs.index(chain[1]), first.downs), middle[first.level] + first.height / 2
    for s in chain[1:-1]:
        yield s.x, tops[s.level]
        yield s.x, 2 * middle[s.level] - tops[s.level]
    yield _port(last, last.ups.index(chain[-2]), last.ups), middle[last.level] - last.height / 2


def _port(s: _Spot, k: int, near: Sequence[_Spot]) -> float:
    """Links leave and enter a box beside one another, in the order of their other ends."""
    order = sorted(range(len(near)), key=lambda i: (near[i].x, i))
    step = min(26.0, s.width * 0.7 / max(len(near), 1))
    return s.x + (order.index(k) - (len(near) - 1) / 2) * step
