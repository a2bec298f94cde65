"""The order in which variables are eliminated. In: domain sizes, edges. Out: the order, if its tables stay small.

The smallest table first, the lowest index among equals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import log2

HUB = 12  # Above this degree a variable waits, weighed by its degree alone: summing a hub's weights is quadratic.
LAST = 1_000.0  # the weight of a hub, beyond its degree: above that of any table


def elimination_order(
    sizes: Sequence[int], edges: Iterable[tuple[int, int]], widest: float, most: float = 0.0
) -> list[int] | None:
    """The order; None if it makes a table of more than 2 ** widest entries, and 2 ** most in all."""
    near: list[set[int]] = [set() for _ in sizes]
    for i, j in edges:
        near[i].add(j)
        near[j].add(i)
    weight = [log2(size) for size in sizes]

    def score(v: int) -> float:
        around = near[v]
        return LAST + len(around) if len(around) > HUB else sum([weight[w] for w in around])

    queue = [(score(v), v) for v in range(len(sizes))]
    best = [item[0] for item in queue]
    heapify(queue)
    order: list[int] = []
    total, room = 0.0, 2.0**most
    while queue:
        estimate, v = heappop(queue)
        if estimate != best[v]:
            continue
        best[v] = -1.0  # Done: other entries of it are passed over.
        order.append(v)
        around = near[v]
        table = estimate if estimate < LAST else sum([weight[w] for w in around])
        total += 2.0 ** (table + weight[v])
        if table + weight[v] > widest and total > room:
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
    return order
