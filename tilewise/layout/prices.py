"""What changing between the usual layouts costs, all at once. In: shape, mesh, tariff. Out: a matrix, and first steps.

The usual layouts cut evenly: every axis over all workers (of a grid row by row, or column by column), and on a grid
every pair of placements. A chain of exchanges
goes through some of these, so the cheapest way between any two is a shortest path, found once per shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tilewise.layout.index_set import runs
from tilewise.layout.placement import (
    Cutting,
    Grid,
    Layout,
    Mesh,
    OnDriver,
    Partial,
    Placement,
    Replicate,
    Shard,
    even_divisions,
    even_shard,
    grid_layout,
    lines,
    reduction,
)
from tilewise.records import dataclass

Ints = np.ndarray[Any, np.dtype[np.int64]]

SHAPES_KEPT = 1 << 13
ANY = Partial("add")  # the reduction of contributions does not change their bytes


@dataclass(frozen=True)
class Tariff:
    """What an exchange costs, in whole units: a price per exchange, and one per so many bytes (rounded up)."""

    step: int = 0
    price: int = 1
    per: int = 1
    all_bytes: bool = True  # of all bytes that cross; else of those the busiest worker takes in

    def cost(self, size: Any) -> Any:
        """The price of an exchange of so many bytes; works for arrays of sizes, too."""
        return self.step - -size * self.price // self.per


VOLUME = Tariff()  # bytes alone


@dataclass(frozen=True, eq=False)
class Prices:
    """Costs from every usual layout (rows: partial ones too, last) to every one that a value can be moved to."""

    layouts: tuple[Layout, ...]
    targets: int  # how many of them, from the first, can be moved to
    index: dict[Layout, int]
    direct: Ints  # by one exchange
    cost: Ints  # by the cheapest chain
    step: Ints  # the layout to go to first

    def find(self, layout: Layout) -> int | None:
        """The row of a layout; None if it is not a usual one."""
        found = self.index.get(layout)
        if found is None and reduction(layout) is not None:
            found = self.index.get(_anyhow(layout))
        return found

    def chain(self, i: int, j: int) -> tuple[Layout, ...]:
        """The layouts after i on the cheapest route to j."""
        out: list[Layout] = []
        while i != j:
            i = int(self.step[i, j])
            out.append(self.layouts[i])
        return tuple(out)


def _anyhow(layout: Layout) -> Layout:
    if isinstance(layout, Partial):
        return ANY
    assert isinstance(layout, Grid)
    down, across = (ANY if isinstance(p, Partial) else p for p in (layout.down, layout.across))
    return Grid(down, across)


@lru_cache(maxsize=SHAPES_KEPT)
def prices(shape: tuple[int, ...], mesh: Mesh, itemsize: int, tariff: Tariff) -> Prices:
    """The matrix for arrays of a shape."""
    settled, partial = usual(shape, mesh)
    every = (*settled, *partial)
    n = len(settled)
    direct = cost = _direct(every, settled, shape, mesh, itemsize, tariff)
    step = np.broadcast_to(np.arange(n), cost.shape).copy()
    for k in range(n):
        through = cost[:, k, None] + cost[k]
        better = through < cost
        if better.any():
            cost = np.where(better, through, cost)
            step = np.where(better, step[:, k, None], step)
    return Prices(every, n, {x: i for i, x in enumerate(every)}, direct, cost, step)


def beside(layout: Layout, shape: tuple[int, ...], mesh: Mesh, itemsize: int, tariff: Tariff) -> tuple[Ints, Ints]:
    """What a layout that is not a usual one costs from each of these, and to each target; one by one: `priced_route`.

    Every worker must own one interval of each axis, without ghosts.
    """
    table = prices(shape, mesh, itemsize, tariff)
    targets = table.layouts[: table.targets]
    through = [k for k, x in enumerate(targets) if not isinstance(x, OnDriver)]
    there = _direct(table.layouts, (layout,), shape, mesh, itemsize, tariff)[:, 0]
    back = _direct((layout,), targets, shape, mesh, itemsize, tariff)[0]
    last, first = there[through], back[through]
    there = np.minimum(there, (table.cost[:, through] + last).min(axis=1))
    back = np.minimum(back, (first[:, None] + table.direct[through]).min(axis=0))
    return there, back


def usual(shape: tuple[int, ...], mesh: Mesh) -> tuple[list[Layout], list[Layout]]:
    """The usual layouts of a shape: those of values, and those of contributions."""
    axes = [a for a, n in enumerate(shape) if n > 1]
    flat: list[Layout] = list(dict.fromkeys(x for a in axes for x in even_divisions(a, shape[a], mesh)))
    if not mesh.grid:
        return [*flat, Replicate(), OnDriver()], [ANY]
    down: list[Placement] = [*(even_shard(a, shape, mesh.down) for a in axes), Replicate(), ANY]
    across: list[Placement] = [*(even_shard(a, shape, mesh.across) for a in axes), Replicate(), ANY]
    pairs = [grid_layout(a, b) for a, b in product(down, across) if not _same_axis(a, b)]
    grids = [x for x in pairs if isinstance(x, Grid)]
    settled = [x for x in grids if reduction(x) is None]
    return [*flat, *settled, Replicate(), OnDriver()], [ANY, *(x for x in grids if reduction(x) is not None)]


def _same_axis(a: Placement, b: Placement) -> bool:
    return isinstance(a, Shard) and isinstance(b, Shard) and a.axis == b.axis


def _direct(
    sources: Sequence[Layout],
    targets: Sequence[Layout],
    shape: tuple[int, ...],
    mesh: Mesh,
    itemsize: int,
    tariff: Tariff,
) -> Ints:
    """The cost of one exchange from each layout to each target; contributions are reduced by it.

    Targets are the first of the sources, or others.
    """
    low, high = _holdings(sources, shape, mesh)
    first, last = (low, high) if targets[0] is sources[0] else _holdings(targets, shape, mesh)
    first, last = first[: len(targets)], last[: len(targets)]
    copies = np.array([1 if isinstance(x, OnDriver) else _contributions(x, mesh) for x in sources], dtype=np.int64)
    here, there = (_here(layouts, mesh) for layouts in (sources, targets))
    need = np.prod(last - first, axis=1, dtype=np.int64) * there  # [target, worker]
    both = np.minimum(high[:, None], last) - np.maximum(low[:, None], first)
    at_hand = np.prod(np.maximum(both, 0), axis=2, dtype=np.int64) * here[:, None] * there
    received = copies[:, None, None] * need - at_hand  # [source, target, worker]
    total = received.sum(axis=2)
    busiest = total if tariff.all_bytes else received.max(axis=2)
    if not tariff.all_bytes:
        driver = [isinstance(x, OnDriver) for x in sources]
        busiest[driver] = total[driver]  # what one place sends
    cost: Ints = np.where(total > 0, tariff.cost(busiest * itemsize), 0)
    return cost


def _here(layouts: Sequence[Layout], mesh: Mesh) -> Ints:
    """Which workers have a part: [layout, worker]. What the driver has is at the first one's place."""
    out = np.ones((len(layouts), mesh.workers), dtype=np.int64)
    out[[isinstance(x, OnDriver) for x in layouts], 1:] = 0
    return out


def _contributions(layout: Layout, mesh: Mesh) -> int:
    return prod(line.workers for part, line in lines(layout, mesh) if isinstance(part, Partial))


def _holdings(layouts: Sequence[Layout], shape: tuple[int, ...], mesh: Mesh) -> tuple[Ints, Ints]:
    """Where what each worker holds begins and ends: [layout, axis, worker]."""
    low = np.zeros((len(layouts), len(shape), mesh.workers), dtype=np.int64)
    high = np.empty_like(low)
    high[:] = np.array(shape, dtype=np.int64)[None, :, None]
    workers = np.arange(mesh.workers)
    places = (workers, workers // mesh.columns, workers % mesh.columns)  # on the line of all, down, across
    found: dict[tuple[Cutting, int], Ints] = {}  # pairs of placements share them
    for i, layout in enumerate(layouts):
        if isinstance(layout, OnDriver):
            continue
        for k, (part, line) in enumerate(lines(layout, mesh), start=int(isinstance(layout, Grid))):
            if isinstance(part, Cutting):
                edges = found.get((part, k))
                if edges is None:
                    edges = found[part, k] = np.array(_edges(part, line), dtype=np.int64)[:, places[k]]
                low[i, part.axis], high[i, part.axis] = edges
    return low, high


def _edges(part: Cutting, line: Mesh) -> tuple[Sequence[int], Sequence[int]]:
    """Where each worker's part of an axis begins and ends."""
    if isinstance(part, Shard):
        ends = part.cuts[:: line.blocks]
        return ends[:-1], ends[1:]
    spans = [runs(part.owned(b[0], b[-1])) for b in map(line.blocks_of, range(line.workers))]
    assert all(len(span) == 1 for span in spans), f"{part} is not a usual layout"
    return [span[0][0] for span in spans], [span[0][1] for span in spans]
