"""The layouts a value may be held in. In: where it is, what its users may ask for. Out: sets worth weighing, costs.

A value that several users need is converted once for all of them (Spartan's duplication). So the choice for it is a
set of layouts; a user takes what it needs from the nearest of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewise.layout import (
    Grid,
    Layout,
    Mesh,
    Outside,
    Placement,
    Prices,
    Replicate,
    Shard,
    Tariff,
    bare,
    beside,
    grid_layout,
    local_dims,
    placements,
    priced_route,
    prices,
    reduction,
    shards,
)
from tilewise.records import dataclass
from tilewise.solver.problem import INF, Ints

MAX_HELD = 3  # layouts at once
KINDS_KEPT = 1 << 12
MAX_SETS = 48  # beyond, sets are of two layouts at most

Held = tuple[Layout, ...]
Flags = NDArray[np.bool_]
Sets = tuple[tuple[int, ...], ...]  # of positions in a list of layouts


@dataclass(frozen=True, eq=False)
class Kind:
    """What of a value decides what converting it costs. Made by `one_kind`: equal ones are one object."""

    shape: tuple[int, ...]
    itemsize: int
    mesh: Mesh
    tariff: Tariff

    @cached_property
    def usual(self) -> Prices:
        """The costs between the usual layouts."""
        return prices(self.shape, self.mesh, self.itemsize, self.tariff)

    @cached_property
    def _known(self) -> dict[tuple[Layout, Layout], int]:
        return {}

    @cached_property
    def _unusual(self) -> dict[Layout, tuple[Ints, Ints]]:
        return {}

    def _beside(self, layout: Layout) -> tuple[Ints, Ints]:
        """The costs of an uneven cut from and to the usual layouts."""
        found = self._unusual.get(layout)
        if found is None:
            found = beside(layout, self.shape, self.mesh, self.itemsize, self.tariff)
            self._unusual[layout] = found
        return found

    @cached_property
    def _bytes(self) -> dict[Layout, int]:
        return {}

    def cost(self, src: Layout, dst: Layout) -> int:
        """The price of the cheapest route from one layout to another; INF where there is none."""
        found = self._known.get((src, dst))
        if found is None:
            found = self._known[src, dst] = self._cost(src, dst)
        return found

    def _cost(self, src: Layout, dst: Layout) -> int:
        table = self.usual
        i, j = table.find(src), table.index.get(dst)
        if j is not None and j < table.targets:
            if i is not None:
                return int(table.cost[i, j])
            if _plain(src):
                return int(self._beside(src)[1][j])
        elif i is not None and _plain(dst):
            return int(self._beside(dst)[0][i])
        if src == dst or covers(src, dst):
            return 0
        if reduction(dst) is not None and not _keeps(src, dst):
            return INF
        return min(priced_route(src, dst, self.shape, self.mesh, self.itemsize, self.tariff).cost, INF)

    def made_anew(self, src: Layout, dst: Layout) -> bool:
        """Whether a value gets another layout by being computed again."""
        return False

    def bytes_of(self, layout: Layout) -> int:
        """What a worker holds of it."""
        found = self._bytes.get(layout)
        if found is None:
            size = 0 if isinstance(layout, Outside) else prod(local_dims(layout, self.shape, self.mesh))
            found = self._bytes[layout] = size * self.itemsize
        return found

    def sorted(self, layouts: Iterable[Layout]) -> Held:
        """Layouts in an order that does not depend on who asked first, as far as they are usual ones."""
        at = self.usual.index
        return tuple(sorted(layouts, key=lambda x: at.get(x, len(at))))

    def matrix(self, sources: Sequence[Layout], targets: Sequence[Layout]) -> Ints:
        """The costs from some layouts to others."""
        table = self.usual
        last = table.targets
        rows = [table.find(x) for x in sources]
        columns = rows if targets is sources else [table.find(x) for x in targets]
        usual_rows = [k for k, i in enumerate(rows) if i is not None]
        usual_columns = [m for m, j in enumerate(columns) if j is not None and j < last]
        at = [i for i in rows if i is not None]
        found: Ints = table.cost.take(at, axis=0).take([j for j in columns if j is not None and j < last], axis=1)
        if found.shape == (len(rows), len(columns)):
            return found
        out = np.full((len(rows), len(columns)), INF, dtype=np.int64)
        out[np.array(usual_rows, dtype=np.intp)[:, None], usual_columns] = found
        partial: list[int] | None = None
        for m in [m for m, j in enumerate(columns) if j is None or j >= last]:
            y = targets[m]
            if reduction(y) is None:
                out[:, m] = [self.cost(x, y) for x in sources]
                continue
            if partial is None:  # Few can become partial, and nothing on all workers.
                partial = [k for k, x in enumerate(sources) if reduction(x) is not None]
            for k in partial:
                x = sources[k]
                if x == y:
                    out[k, m] = 0
                elif isinstance(y, Grid) and isinstance(x, Grid) and _keeps(x, y):
                    out[k, m] = self.cost(x, y)
        if len(usual_rows) < len(rows):
            for k in [k for k, i in enumerate(rows) if i is None]:
                out[k, usual_columns] = [self.cost(sources[k], targets[m]) for m in usual_columns]
        return out


@dataclass(frozen=True, eq=False)
class NewKind(Kind):
    """Of a value without inputs (zeros, arange): a block of another layout is made on the spot, not sent."""

    rate: float  # units of cost for a byte that is made

    def _cost(self, src: Layout, dst: Layout) -> int:
        sent = super()._cost(src, dst)
        return min(sent, self._making(dst)) if self._may(src, dst) else sent

    def made_anew(self, src: Layout, dst: Layout) -> bool:
        return self._may(src, dst) and self._making(dst) <= super()._cost(src, dst)

    def _may(self, src: Layout, dst: Layout) -> bool:
        """Only blocks: copies of the whole array are sent."""
        return bool(shards(dst)) and reduction(dst) is None and not isinstance(src, Replicate)

    def _making(self, layout: Layout) -> int:
        return round(self.bytes_of(layout) * self.rate)

    def matrix(self, sources: Sequence[Layout], targets: Sequence[Layout]) -> Ints:
        found = super().matrix(sources, targets)
        rows = np.array([not isinstance(x, Replicate) for x in sources])
        columns = [m for m, y in enumerate(targets) if shards(y) and reduction(y) is None]
        making = np.array([self._making(targets[m]) for m in columns], dtype=np.int64)
        some = found[:, columns]
        found[:, columns] = np.minimum(some, making, where=rows[:, None], out=some)
        return found


@lru_cache(maxsize=KINDS_KEPT)
def one_kind(shape: tuple[int, ...], itemsize: int, mesh: Mesh, tariff: Tariff, rate: float | None = None) -> Kind:
    """The kind with these properties; `rate` is what a byte costs of a value made of nothing."""
    return Kind(shape, itemsize, mesh, tariff) if rate is None else NewKind(shape, itemsize, mesh, tariff, rate)


def _plain(layout: Layout) -> bool:
    return isinstance(layout, Shard) and layout.ghosts == (0, 0)


def covers(src: Layout, dst: Layout) -> bool:
    """Whether `dst` is `src` with fewer ghosts."""
    if isinstance(src, Shard) and isinstance(dst, Shard):
        same = (src.axis, src.cuts) == (dst.axis, dst.cuts)
        return same and src.ghosts[0] >= dst.ghosts[0] and src.ghosts[1] >= dst.ghosts[1]
    if isinstance(src, Grid) and isinstance(dst, Grid):
        return all(a == b or covers(a, b) for a, b in zip(placements(src), placements(dst), strict=True))
    return False


def _keeps(src: Layout, dst: Layout) -> bool:
    """Whether contributions stay unreduced in the exchange."""
    if not (isinstance(src, Grid) and isinstance(dst, Grid)):
        return False
    return any(a == b and reduction(a) is not None for a, b in zip(placements(src), placements(dst), strict=True))


def sets_of(layouts: Held, between: Ints, most: int) -> Sets:
    """Sets of layouts worth holding, as positions; what another layout contains for free is left out."""
    before, other = _earlier(len(layouts))
    free = (between == 0) & other
    same = free & free.T  # each contains the other: one of them suffices
    first = np.flatnonzero(~(same & before).any(axis=1))
    out: list[tuple[int, ...]] = [(i,) for i in first.tolist()]
    if most > 1:
        apart = (before.T & ~(free | free.T))[first[:, None], first]
        out.extend(zip(*[first[at].tolist() for at in apart.nonzero()], strict=True))
    if most > 2:
        three = apart[:, :, None] & apart[:, None, :] & apart[None]
        if len(out) + np.count_nonzero(three) <= MAX_SETS:
            out.extend(zip(*[first[at].tolist() for at in three.nonzero()], strict=True))
    return tuple(out)


@lru_cache(maxsize=256)
def _earlier(n: int) -> tuple[Flags, Flags]:
    """Of n things in order: which come before each (its row), and which are others."""
    place = np.arange(n)
    return place[:, None] > place, place[:, None] != place


def direct(between: Ints) -> bool:
    """Whether no route through a layout is cheaper than the direct one.

    Of two uses of a value each then converts it directly, or the second starts from the layout of the first: holding
    one layout does as well as two.
    """
    through = between[:, :, None] + between[None]
    return bool((through.min(axis=1) >= between).all())


def widened(wanted: Sequence[Layout]) -> dict[Layout, Layout]:
    """For each layout with ghosts, one with enough for all that differ from it in ghosts only: they share one halo."""
    plain = [bare(x) for x in wanted]
    groups: dict[Layout, list[Layout]] = {}
    for x, y in zip(wanted, plain, strict=True):
        if x is not y:
            groups.setdefault(y, []).append(x)
    if not groups:
        return {x: x for x in wanted}
    wide = {y: _join(same) for y, same in groups.items()}
    return {x: x if x is y else wide[y] for x, y in zip(wanted, plain, strict=True)}


def _join(layouts: Sequence[Layout]) -> Layout:
    parts = [_widest(column) for column in zip(*(placements(x) for x in layouts), strict=True)]
    return parts[0] if len(parts) == 1 else grid_layout(*parts)


def _widest(parts: Sequence[Placement]) -> Placement:
    first = parts[0]
    if not isinstance(first, Shard):
        return first
    ghosts = [p.ghosts for p in parts if isinstance(p, Shard)]
    return Shard(first.axis, first.cuts, (max(g[0] for g in ghosts), max(g[1] for g in ghosts)))


def _trees(size: int) -> list[tuple[int, ...]]:
    """All trees in which layouts are made from a source (-1) or from each other: a parent for each, without cycles."""
    out = []
    for parents in product(range(-1, size), repeat=size):
        at = list(range(size))
        for _ in range(size):
            at = [x if x < 0 else parents[x] for x in at]
        if all(x < 0 for x in at):
            out.append(parents)
    return out


TREES = {size: _trees(size) for size in range(1, MAX_HELD + 1)}


def trees(size: int) -> Sequence[tuple[int, ...]]:
    """Ways to make so many layouts; of more than are ever weighed (one operand many times) each from what is given."""
    return TREES.get(size) or [(-1,) * size]


def spread_costs(given: Ints, between: Ints, sets: Sets) -> Ints:
    """The least cost of holding each set, from each source: [source, set].

    `given` has the costs from sources, `between` those from one layout to another. A layout may be made from another
    that is being made, so the cost is that of the cheapest tree.
    """
    out = np.empty((given.shape[0], len(sets)), dtype=np.int64)
    for size in {len(s) for s in sets}:
        where = [k for k, s in enumerate(sets) if len(s) == size]
        ids = np.array([sets[k] for k in where], dtype=np.intp).reshape(len(where), size).T
        first = [given.take(x, axis=1) for x in ids]
        if size == 1:
            out[:, where] = first[0]
            continue
        step = [[between[x, y] for y in ids] for x in ids]
        best = np.full((given.shape[0], len(where)), INF, dtype=np.int64)
        for parents in trees(size):
            ways = [first[child] if parent < 0 else step[parent][child] for child, parent in enumerate(parents)]
            np.minimum(best, sum(ways[1:], ways[0]), out=best)
        out[:, where] = best
    return np.minimum(out, INF, out=out)


def reach_costs(between: Ints, sets: Sets) -> Ints:
    """The cost of each layout from the nearest of each set: [set, layout]."""
    widest = max(map(len, sets))
    ids = np.array([(*s, *(s[0],) * (widest - len(s))) for s in sets], dtype=np.intp)
    nearest = between[ids[:, 0]]
    for k in range(1, widest):
        nearest = np.minimum(nearest, between[ids[:, k]])
    return nearest


def needless(cost: Ints, reach: Ints, weight: Ints, sets: Sets, uses: int) -> list[int]:
    """Pairs of layouts for which, whatever is done with the value, some layout alone that weighs no more does as well.

    `cost` is [source, set], `reach` [set, use]: what each use that may be made of the value costs. Of `uses` uses, some
    take the first of the pair and the others the second (if all took the same, that one alone would do). With a third
    layout instead, each loses at most the largest difference. So a pair is worth holding only if for some source and
    some division every single layout loses more than it saves.
    """
    pairs = [k for k, s in enumerate(sets) if len(s) == 2]
    alone = {s[0]: k for k, s in enumerate(sets) if len(s) == 1}
    if not pairs:
        return []
    single = list(alone.values())
    at = {x: k for k, x in enumerate(alone)}
    lose = np.maximum((reach[single][:, None] - reach[single][None]).max(axis=2), 0)  # [instead, taken]
    first, second = (lose[:, [at[sets[k][end]] for k in pairs]] for end in (0, 1))  # [instead, pair]
    saved = cost[:, None, pairs] - cost[:, single][:, :, None]  # [source, instead, pair]
    if weight.any():
        saved[:, weight[single][:, None] > weight[pairs]] = -1
    possible = cost[:, pairs] < INF
    worth = np.zeros(len(pairs), dtype=bool)
    for took in range(1, uses):
        worth |= ((took * first + (uses - took) * second > saved).all(axis=1) & possible).any(axis=0)
    return [k for k, good in zip(pairs, worth.tolist(), strict=True) if not good]


def undominated(features: Ints) -> NDArray[np.intp]:
    """The rows that no other row is as good as in everything (of equal rows the first)."""
    columns = np.ascontiguousarray(features.T)
    less = (columns[:, :, None] <= columns[:, None, :]).all(axis=0)
    before, _ = _earlier(len(features))
    beaten = less & (~less.T | before.T)  # by a row that is better somewhere, or an equal one before it
    return np.flatnonzero(~beaten.any(axis=0))


def spread(sources: Held, held: Held, kind: Kind) -> tuple[int, tuple[Layout, ...]]:
    """The least cost of holding some layouts, given others, and for each the layout it is made from."""
    if len(held) > MAX_HELD:  # one by one: only sets that were not weighed come here
        parts = [spread(sources, (h,), kind) for h in held]
        return sum(p[0] for p in parts), tuple(p[1][0] for p in parts)
    best: tuple[int, tuple[Layout, ...]] = (INF, ())
    source = [min(sources, key=lambda x: kind.cost(x, h)) for h in held]
    for parents in trees(len(held)):
        made = [source[k] if p < 0 else held[p] for k, p in enumerate(parents)]
        cost = sum(kind.cost(p, h) for p, h in zip(made, held, strict=True))
        if cost < best[0]:
            best = (cost, tuple(made))
    return best
