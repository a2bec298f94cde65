"""The sets of layouts worth weighing for one value. In: where it is made, what is asked of it. Out: sets and costs.

A result also ends in a layout, which costs something.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tilewise.cost.model import Rates
from tilewise.ir.node import Node
from tilewise.layout import Layout, OnDriver, Outside, Replicate, at_first, bare, even_divisions, reduction
from tilewise.records import dataclass
from tilewise.solver.model.graph import Aliases, shown
from tilewise.solver.model.replicas import (
    MAX_HELD,
    Held,
    Kind,
    direct,
    needless,
    reach_costs,
    sets_of,
    spread_costs,
    undominated,
    widened,
)
from tilewise.solver.problem import INF, Ints

SETTLED_KEPT = 1 << 14
MAX_USES = 6  # of a value: with more, all pairs of layouts are weighed


@dataclass(frozen=True, eq=False)
class Holding:
    """The sets of layouts that may be held of a value."""

    sets: tuple[Held, ...]
    cost: Ints  # [layout it is made in, or 0 for a leaf; set]
    reach: Ints  # [set, layout]
    at: dict[Layout, int]  # columns of `reach`
    alone: Ints  # [set]: of a leaf, what it costs; of a result, what its final layout does


def holding_of(
    outs: Held,
    made: bool,
    asked: Held,
    kind: Kind,
    aliases: Aliases | None,
    small: int,
    uses: int,
    limited: bool,
) -> Holding:
    """The sets worth weighing for a value. `aliases` is None for what is no result."""
    settled: dict[Layout, tuple[int, Layout]] = {}
    if aliases is not None:
        settled = {x: settle(x, kind, small, aliases) for x in outs}
    wide = widened(asked)
    asked_for = tuple(dict.fromkeys(wide.values()))
    ends = [end for _, end in settled.values()]
    layouts = tuple(dict.fromkeys([x for x in (*asked_for, *outs, *ends) if not isinstance(x, Outside)]))
    at: dict[Layout, int] = {x: k for k, x in enumerate(layouts)}
    between = kind.matrix(layouts, layouts)
    given = between[[at[x] for x in outs]] if made else kind.matrix(outs, layouts).min(axis=0, keepdims=True)
    alone = made and uses <= 2 and not limited and direct(between)
    sets = sets_of(layouts, between, 1 if alone else min(uses, MAX_HELD))
    cost = spread_costs(given, between, sets)
    reach = reach_costs(between, sets)
    left = None
    takes = [reach[:, : len(asked_for)]]
    if aliases is not None:
        leaving = [(settled.get(x) or settle(x, kind, small, aliases))[0] for x in layouts]
        left = reach_costs(np.array(leaving, dtype=np.int64)[:, None], sets)[:, 0]
        takes.append(left[:, None])
    taken = np.concatenate(takes, axis=1)
    each = [kind.bytes_of(x) if limited else 0 for x in layouts]
    weight = np.array([sum([each[x] for x in s]) for s in sets], dtype=np.int64)  # None replaces a lighter set.
    many = uses == MAX_USES or not kind.mesh.grid  # on a 1-D mesh there are few sets anyway
    features = np.concatenate([cost.T, taken, weight[:, None]], axis=1)
    gone = () if many else needless(cost, taken, weight, sets, uses)
    if gone:
        worth = np.delete(np.arange(len(sets)), gone)
        keep = worth[undominated(features[worth])]
    else:
        keep = undominated(features)
    cost, reach = cost.take(keep, axis=1), reach.take(keep, axis=0)
    by_itself: Ints = np.zeros(len(keep), dtype=np.int64) if made else cost[0]
    return Holding(
        tuple([tuple([layouts[x] for x in sets[k]]) for k in keep.tolist()]),
        cost,
        reach,
        at | {x: at[wide[x]] for x in asked},
        by_itself if left is None else by_itself + left[keep],
    )


def taken(holding: Holding, rows: tuple[Held, ...]) -> Ints:
    """What a user pays by each rule from each set: [set, rule]."""
    at = holding.at
    first = holding.reach.take([at[row[0]] for row in rows], axis=1)
    for k in range(1, max(map(len, rows))):
        more = [j for j, row in enumerate(rows) if len(row) > k]
        first[:, more] += holding.reach[:, [at[rows[j][k]] for j in more]]
    return np.minimum(first, INF, out=first)


def small_bytes(n: Node, machine: Rates) -> int:
    """Up to which size a result is expected to be read by the driver."""
    return 0 if n.op.stays else machine.small_bytes


@lru_cache(maxsize=SETTLED_KEPT)
def settle(layout: Layout, kind: Kind, small_bytes: int, aliases: Aliases) -> tuple[int, Layout]:
    """The cheapest layout for a result that is in this one, and its cost: not partial, no ghosts.

    The result may be seen through aliases, which must have a layout, too. Small results are expected to be read, so
    that bringing them to the driver counts.
    """
    small = kind.itemsize * math.prod(kind.shape) <= small_bytes
    plain = bare(layout)
    ends: list[Layout] = [Replicate()]
    if reduction(layout) is None and not isinstance(layout, Outside) and shown(plain, aliases, kind.mesh):
        ends = [plain, Replicate()] if small else [plain]
    else:
        found = [x for a, n in enumerate(kind.shape) if n > 1 for x in even_divisions(a, n, kind.mesh)]
        ends += [x for x in found if shown(x, aliases, kind.mesh)]
        if kind.tariff.all_bytes and small and kind.shape and kind.shape[0]:
            first = at_first(kind.shape, kind.mesh)
            here = shown(first, aliases, kind.mesh)
            if here and kind.cost(layout, first) <= min(kind.cost(layout, x) for x in ends):
                ends.append(first)  # and it is where it will be read
    costs = [kind.cost(layout, x) + (kind.cost(x, OnDriver()) if small else 0) for x in ends]
    best = min(range(len(ends)), key=costs.__getitem__)
    return costs[best], ends[best]
