"""Exact search under hard limits, one variable at a time. In: tables, limits, an order. Out: values and a lower bound.

A state is an assignment of the variables whose neighbours (or limits) are not all assigned yet; of states that agree
there, the cheapest stays. States that cannot come below the best known cost go, and if there are too many, those that
look worst: then the least of them is the lower bound that is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewise.solver.problem import Ints, Limit

KEY = 1 << 62
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
        self.limits: list[list[tuple[int, int, Ints]]] = [[] for _ in range(count)]  # (limit, room, use)
        for k, limit in enumerate(limits):
            ends = max(limit.use)
            room = limit.budget - sum(int(use.min()) for use in limit.use.values())
            for v, use in limit.use.items():
                self.limits[v].append((k, room, use - use.min()))
                last[v] = max(last[v], ends)
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
            for k, room, use in self.limits[v]:
                here = grown[k] = used[k][:, None] + use if k in used else np.broadcast_to(use, total.shape)
                stands &= here <= room
            states, picked = np.nonzero(stands)
            if not len(states):
                return Found(None, goal, bound)
            cost = total[states, picked]
            gone = self.retires[v]
            for w in gone:
                chosen.pop(w, None)
            if gone:
                columns = [(column, len(self.unary[w])) for w, column in chosen.items()]
                key = _numbers(len(total), columns if gone != [v] else None)[states]
                keep = _cheapest(key if v in gone else key * len(unary) + picked, cost)
                cost, states, picked = cost[keep], states[keep], picked[keep]
            if len(cost) > width:
                ranked = np.argsort(cost, kind="stable")
                bound = min(bound, int(cost[ranked[width]]))
                keep = np.sort(ranked[:width])
                cost, states, picked = cost[keep], states[keep], picked[keep]
            chosen = {w: column[states] for w, column in chosen.items()}
            if v not in gone:
                chosen[v] = picked
            used = {k: column[states] for k, column in used.items() if k not in grown}
            used.update((k, column[states, picked]) for k, column in grown.items() if k not in self.closes[v])
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
