"""Search depth first for what is better than the best known. In: a problem after message passing, limits. Out: values.

The bound of a partial assignment is its cost, and for every variable that is left the least of what its values cost
beside it. Such bounds are tight after message passing, so that few assignments are gone into; millions of entries are
looked at in a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewise.records import dataclass
from tilewise.solver.problem import Ints, Limit
from tilewise.solver.search.dual import Dual
from tilewise.solver.search.native import Native

BITS = 20  # of the means by which variables are ordered: sums of them stay exact


@dataclass(frozen=True)
class Dived:
    """The best values below the goal, if any, and their cost; the order, if no assignment below that is left."""

    values: list[int] | None
    cost: int
    order: list[int] | None


def search(dual: Dual, limits: Sequence[Limit], constant: int, goal: int, unit: int, most: int) -> Dived:
    """Look for assignments that cost less than `goal` (costs are multiples of `unit`), at up to `most` entries."""
    count = len(dual.size)
    low, least = (np.minimum.reduceat(*flat) if len(flat[1]) else flat[1] for flat in _flats(dual))
    future = dual.unary - np.repeat(low, dual.size)
    tables = dual.tables - np.repeat(least, np.diff(dual.start))
    base = constant + int(low.sum()) + int(least.sum())
    order = _order(dual, future, tables, goal - base)
    place = np.empty_like(order)
    place[order] = np.arange(count)
    uses = sorted(((v, k, use - use.min()) for k, x in enumerate(limits) for v, use in x.use.items()), key=_of)
    room = np.array([x.budget - sum(int(use.min()) for use in x.use.values()) for x in limits], dtype=np.int64)
    limited = np.searchsorted(np.array([v for v, _, _ in uses]), np.arange(count + 1)).astype(np.int64)
    limit = np.array([k for _, k, _ in uses], dtype=np.int64)
    use_at = np.cumsum([0, *(len(use) for _, _, use in uses)], dtype=np.int64)
    use = np.concatenate([use for _, _, use in uses]) if uses else limit
    found = np.full(count + 2, -1, dtype=np.int64)
    zeros = [np.zeros(n, dtype=np.int64) for n in (count, len(dual.half_edges[1]), count, count, count)]
    graph = (dual.size, dual.at, *dual.half_edges, limited, limit, use_at, use, room, future, tables)
    dive(count, most, goal, unit, base, order, place, *graph, *zeros, found)
    *values, cost, looked = found.tolist()
    best = None if values[0] < 0 else values
    return Dived(best, goal if best is None else cost, order.tolist() if looked < most else None)


def _flats(dual: Dual) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Costs of variables and of pairs, and where those of each begin."""
    return (dual.unary, dual.at), (dual.tables, dual.start[:-1])


def _of(entry: tuple[int, int, Ints]) -> tuple[int, int]:
    return entry[:2]


def _order(dual: Dual, future: Ints, tables: Ints, gap: int) -> Ints:
    """Variables that decide most first: by what their values cost, on average, beside those that come before.

    What is beyond the gap counts as much as the gap.
    """
    shift = max(gap.bit_length() - BITS, 0)
    alone, pairs = (
        np.add.reduceat(np.minimum(costs, gap) >> shift, start) // sizes if len(start) else start
        for costs, start, sizes in ((future, dual.at, dual.size), (tables, dual.start[:-1], np.diff(dual.start)))
    )
    weight = np.zeros((len(alone), len(alone)), dtype=np.int64)
    i, j = dual.ends.T
    weight[i, j] = weight[j, i] = pairs
    score = 2 * alone + weight.sum(axis=1)  # Half of what pairs cost, before the other is chosen.
    order = np.empty_like(alone)
    for k in range(len(order)):
        v = order[k] = int(score.argmax())
        score += weight[v]
        score[v] = -1 << 62
    return order


@Native
def dive(
    count: int,
    most: int,
    goal: int,
    unit: int,
    base: int,
    order: Ints,
    place: Ints,
    size: Ints,
    at: Ints,
    first: Ints,
    far: Ints,
    table: Ints,
    near_stride: Ints,
    far_stride: Ints,
    limited: Ints,
    limit: Ints,
    use_at: Ints,
    use: Ints,
    room: Ints,
    future: Ints,
    tables: Ints,
    low: Ints,
    saved: Ints,
    reached: Ints,
    last: Ints,
    values: Ints,
    found: Ints,
) -> int:
    """Go through the assignments, the cheapest values of each variable first (nodes and half-edges as in sweeps.py).

    `future` has what each value costs beside those that are chosen, `low` the least of that per variable, which
    `saved` keeps for the way back. `limited[v]` to `limited[v + 1]` are the limits of a variable. `found` gets the
    values, their cost, and the number of entries that were looked at.
    """
    looked = 0
    d = 0
    reached[0] = base
    values[0] = -1
    last[0] = -1
    while d >= 0:
        v = order[d]
        chosen = values[d]
        if chosen >= 0:  # Take back what was tried last.
            for h in range(first[v], first[v + 1]):
                j = far[h]
                if place[j] > d:
                    low[j] = saved[h]
                    row = table[h] + chosen * near_stride[h]
                    for x in range(0, size[j]):
                        future[at[j] + x] -= tables[row + x * far_stride[h]]
            for h in range(limited[v], limited[v + 1]):
                room[limit[h]] += use[use_at[h] + chosen]
        begin = chosen
        chosen = -1
        least = 4611686018427387904
        looked += size[v]
        for a in range(0, size[v]):
            after = last[d] if a > begin else last[d] + 1  # Dearer values are next, of equal ones the later.
            cost = future[at[v] + a] if future[at[v] + a] >= after else 4611686018427387904
            if cost < least:
                chosen = a
                least = cost
        bound = reached[d] - low[v] + least
        bound = goal if looked >= most else bound
        if bound >= goal:
            d -= 1
        else:
            values[d] = chosen
            last[d] = least
            for h in range(limited[v], limited[v + 1]):
                room[limit[h]] -= use[use_at[h] + chosen]
                bound = goal if room[limit[h]] < 0 else bound
            for h in range(first[v], first[v + 1]):
                j = far[h]
                if place[j] > d:
                    saved[h] = low[j]
                    row = table[h] + chosen * near_stride[h]
                    least = 4611686018427387904
                    looked += size[j]
                    for x in range(0, size[j]):
                        cost = future[at[j] + x] + tables[row + x * far_stride[h]]
                        future[at[j] + x] = cost
                        least = cost if cost < least else least
                    bound += least - low[j]
                    low[j] = least
            if bound < goal:
                if d == count - 1:
                    goal = bound - unit + 1
                    found[count] = bound
                    for i in range(0, count):
                        found[order[i]] = values[i]
                else:
                    d += 1
                    reached[d] = bound
                    values[d] = -1
                    last[d] = -1
    found[count + 1] = looked
    return 0
