"""Exact search under hard limits, one variable at a time. In: tables, limits, an order. Out: values and a lower bound.

A state is an assignment of the variables whose neighbours are not all assigned yet, and what is used of each limit; of
states that agree there, one goes that costs and uses no less than another. States that cannot come below the best known
cost go, and if there are too many, those that look worst: then the least of them is the lower bound that is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewise.records import dataclass
from tilewise.solver.problem import Ints, Limit

KEY = 1 << 62
LEADERS = 6  # the cheapest states that others are compared with
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Found:
    """Values (or none below the goal), and a bound that holds for all assignments."""

    values: list[int] | None
    cost: int
    bound: int


class Frontier:
    """A problem in the order of its variables (0, 1, ...), ready to be searched with different goals and widths."""

    def __init__(
        self,
        unary: Sequence[Ints],
        pairs: Mapping[tuple[int, int], Ints],
        limits: Sequence[Limit],
        constant: int,
    ) -> None:
        count = len(unary)
        self.base = constant + sum(int(table.min()) for table in unary)
        self.unary = [table - table.min() for table in unary]
        self.before: list[list[tuple[int, Ints]]] = [[] for _ in range(count)]  # (earlier variable, table)
        last = list(range(count))
        for (i, j), table in pairs.items():
            least = int(table.min())
            self.base += least
            self.before[j].append((i, table - least))
            last[i] = max(last[i], j)
        self.limits: list[list[tuple[int, int, int, Ints]]] = [[] for _ in range(count)]  # (limit, room, safe, use)
        for k, limit in enumerate(limits):
            room = limit.budget - sum(int(use.min()) for use in limit.use.values())
            safe = room  # With no more than this used, what follows cannot break the limit.
            for v in sorted(limit.use, reverse=True):
                use = limit.use[v] - limit.use[v].min()
                self.limits[v].append((k, room, safe, use))
                safe -= int(use.max())
        self.closes: list[set[int]] = [set() for _ in range(count)]
        for k, limit in enumerate(limits):
            self.closes[max(limit.use)].add(k)
        self.retires: list[list[int]] = [[] for _ in range(count)]
        for v, at in enumerate(last):
            self.retires[at].append(v)

    def search(self, goal: int, width: int) -> Found:
        """The cheapest assignment below `goal`, keeping at most `width` states."""
        cost = np.full(1, self.base, dtype=np.int64)
        chosen: dict[int, Places] = {}
        used: dict[int, Ints] = {}
        trail: list[tuple[Places, Places]] = []
        bound = goal
        for v, unary in enumerate(self.unary):
            total = cost[:, None] + unary
            for w, table in self.before[v]:
                total += table[chosen[w]]
            stands = total < goal
            grown: dict[int, Ints] = {}
            for k, room, _, use in self.limits[v]:
                here = grown[k] = used[k][:, None] + use if k in used else np.broadcast_to(use, total.shape)
                stands &= here <= room
            states, picked = np.nonzero(stands)
            if not len(states):
                return Found(None, goal, bound)
            cost = total[states, picked]
            used = {k: column[states] for k, column in used.items() if k not in grown}
            for k, _, safe, _ in self.limits[v]:
                if k not in self.closes[v]:
                    used[k] = np.maximum(grown[k][states, picked], safe)
            gone = self.retires[v]
            for w in gone:
                chosen.pop(w, None)
            keep = None
            if gone or self.closes[v]:
                columns = [(column, len(self.unary[w])) for w, column in chosen.items()]
                alone = gone == [v] and not any(self.limits)
                key = _numbers(len(total), None if alone else columns)[states]
                keep = _undominated(key if v in gone else key * len(unary) + picked, cost, list(used.values()))
            left = len(cost) if keep is None else len(keep)
            if left > width:
                keep = np.arange(left) if keep is None else keep
                ranked = np.argsort(cost[keep], kind="stable")
                bound = min(bound, int(cost[keep[ranked[width]]]))
                keep = np.sort(keep[ranked[:width]])
            if keep is not None:
                cost, states, picked = cost[keep], states[keep], picked[keep]
                used = {k: column[keep] for k, column in used.items()}
            chosen = {w: column[states] for w, column in chosen.items()}
            if v not in gone:
                chosen[v] = picked
            trail.append((states, picked))
        best = int(cost.argmin())
        return Found(_walk(trail, best), int(cost[best]), min(bound, int(cost[best])))


def _numbers(count: int, columns: list[tuple[Places, int]] | None) -> Places:
    """A number per state, the same for states that agree in all columns (None: no two do), below `count`."""
    if columns is None:
        return np.arange(count)
    key = np.zeros(count, dtype=np.int64)
    span = 1
    for column, size in columns:
        if span * size >= KEY:
            key = np.unique(key, return_inverse=True)[1]
            span = count
        key = key * size + column
        span *= size
    return np.unique(key, return_inverse=True)[1]


def _undominated(key: Places, cost: Ints, used: list[Ints]) -> Places:
    """The places of entries that cost or use less than others with equal keys; without limits, one for each key.

    Only the cheapest few of each key are compared with.
    """
    if not used:
        return _cheapest(key, cost)
    order = np.lexsort((cost, key))
    sorted_key = key[order]
    uses = np.stack([column[order] for column in used], axis=1)
    first = np.flatnonzero(np.concatenate(([True], sorted_key[1:] != sorted_key[:-1])))
    sizes = np.diff(np.concatenate((first, [len(order)])))
    start = np.repeat(first, sizes)
    rank = np.arange(len(order)) - start
    beaten = np.zeros(len(order), dtype=bool)
    for j in range(min(LEADERS, int(sizes.max()) - 1)):
        behind = rank > j
        beaten |= behind & (uses >= uses[np.where(behind, start + j, 0)]).all(axis=1)
    return np.sort(order[~beaten])


def _cheapest(key: Places, cost: Ints) -> Places:
    """Of the entries with equal keys the place of the cheapest, the first of equals."""
    least = np.full(int(key.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, key, cost)
    winners = np.flatnonzero(cost == least[key])[::-1]
    place = np.full(len(least), -1)
    place[key[winners]] = winners  # The last assignment stays: the first winner.
    return np.sort(place[place >= 0])


def _walk(trail: list[tuple[Places, Places]], state: int) -> list[int]:
    values = []
    for states, picked in reversed(trail):
        values.append(int(picked[state]))
        state = int(states[state])
    return values[::-1]
