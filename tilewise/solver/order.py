"""The order in which variables are eliminated. In: domain sizes, edges. Out: the order, and the largest table it makes.

The smallest table first, the lowest index among equals. Long loops end in a grid (iterations by what they carry) where
that wanders; there the order of the program is better, so it is taken from the point on where tables grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import log2

HUB = 12  # Above this degree a variable waits, weighed by its degree alone: summing a hub's weights is quadratic.
WIDE = 14.0  # log2 of entries: only wider orders are worth a second try
LOOP = 1_000  # variables: in smaller problems the second tries cost more than they bring
TURNS = (8.0, 11.0, 5.0)  # log2 of entries: where the order of the program takes over


def elimination_order(
    sizes: Sequence[int], edges: Iterable[tuple[int, int]], widest: float
) -> tuple[list[int], float] | None:
    """The order, and log2 of the entries of the largest joint table met on the way. None if all found are wider."""
    edges = list(edges)
    found = _greedy(sizes, edges, None, widest)
    if len(sizes) >= LOOP and (found is None or found[1] > WIDE):
        for turn in TURNS:
            other = _greedy(sizes, edges, turn, widest if found is None else found[1])
            if other is not None and (found is None or other[1] < found[1]):
                found = other
    return found


def _greedy(
    sizes: Sequence[int], edges: Iterable[tuple[int, int]], turn: float | None, widest: float
) -> tuple[list[int], float] | None:
    near: list[set[int]] = [set() for _ in sizes]
    for i, j in edges:
        near[i].add(j)
        near[j].add(i)
    weight = [log2(size) if size > 1 else 0.0 for size in sizes]

    def score(v: int) -> float:
        around = near[v]
        if len(around) > HUB:
            return 1000.0 + len(around)
        table = sum([weight[w] for w in around])
        return 500.0 if turn is not None and table > turn else table

    queue = [(score(v), v) for v in range(len(sizes))]
    best = [item[0] for item in queue]
    heapify(queue)
    done = [False] * len(sizes)
    order: list[int] = []
    largest = 0.0
    while queue:
        estimate, v = heappop(queue)
        if done[v] or estimate != best[v]:
            continue
        done[v] = True
        order.append(v)
        around = near[v]
        largest = max(largest, sum([weight[w] for w in around]) + weight[v])
        if largest > widest:
            return None
        for w in around:
            others = near[w]
            others |= around
            others.discard(v)
            others.discard(w)
            fresh = score(w)
            if fresh != best[w]:
                best[w] = fresh
                heappush(queue, (fresh, w))
    return order, largest
