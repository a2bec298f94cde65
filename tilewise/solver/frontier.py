"""Exact search under hard limits, one variable at a time. In: tables, limits, an order. Out: values and a lower bound.

A state is an assignment of the variables whose neighbours (or limits) are not all assigned yet; of states that agree
there, the cheapest stays. States that cannot come below the best known cost go, and if there are too many, those that
look worst: then the least of them is the lower bound that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .dual import Dual
from .problem import Ints, Limit

KEY = 1 << 62


@dataclass(frozen=True)
class Found:
    """Values (or none below the goal), and a bound that holds for all assignments."""

    values: list[int] | None
    cost: int
    bound: int


class Frontier:
    """A problem in the order of its variables (0, 1, ...), ready to be searched with different goals and widths."""

    def __init__(self, dual: Dual, limits: Sequence[Limit], constant: int) -> None:
        count = len(dual.size)
        self.base = dual.bound() + constant
        self.unary = [table - table.min() for table in dual.unaries()]
        self.before: list[list[tuple[int, Ints]]] = [[] for _ in range(count)]  # (earlier variable, table)
        last = list(range(count))
        for (i, j), table in zip(dual.edges, dual.matrices(), strict=True):
            self.before[j].append((i, table - table.min()))
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
        chosen: dict[int, NDArray[np.intp]] = {}
        used: dict[int, Ints] = {}
        trail: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
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
            cost = total[states, picked]
            chosen = {w: column[states] for w, column in chosen.items()}
            chosen[v] = picked
            used = {k: column[states] for k, column in used.items() if k not in grown}
            used.update((k, column[states, picked]) for k, column in grown.items())
            for k in self.closes[v]:
                del used[k]
            for w in self.retires[v]:
                del chosen[w]
            if not len(states):
                return Found(None, goal, bound)
            keep = _merge(cost, [(column, len(self.unary[w])) for w, column in chosen.items()]) if self.retires[v] else None
            if (len(states) if keep is None else len(keep)) > width:
                keep = np.arange(len(states)) if keep is None else keep
                ranked = keep[np.argsort(cost[keep], kind="stable")]
                bound = min(bound, int(cost[ranked[width]]))
                keep = np.sort(ranked[:width])
            if keep is not None:
                cost, states, picked = cost[keep], states[keep], picked[keep]
                chosen = {w: column[keep] for w, column in chosen.items()}
                used = {k: column[keep] for k, column in used.items()}
            trail.append((states, picked))
        best = int(cost.argmin())
        return Found(_walk(trail, best), int(cost[best]), min(bound, int(cost[best])))


def _merge(cost: Ints, columns: list[tuple[NDArray[np.intp], int]]) -> NDArray[np.intp]:
    """The places of the cheapest states among those that agree in all columns, ascending."""
    key = np.zeros(len(cost), dtype=np.int64)
    span = 1
    for column, size in columns:
        if span * size >= KEY:
            key = np.unique(key, return_inverse=True)[1]
            span = len(cost)
        key = key * size + column
        span *= size
    order = np.lexsort((cost, key))
    ordered = key[order]
    first = np.empty(len(order), dtype=bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return np.sort(order[first])


def _walk(trail: list[tuple[NDArray[np.intp], NDArray[np.intp]]], state: int) -> list[int]:
    values = []
    for states, picked in reversed(trail):
        values.append(int(picked[state]))
        state = int(states[state])
    return values[::-1]
