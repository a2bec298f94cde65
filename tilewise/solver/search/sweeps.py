"""The loops of message passing, on flat arrays. In: a graph of small tables. Out: the same costs, moved about.

Nodes are numbered in the order of the sweeps. Node i has `size[i]` values, its costs at `unary[at[i]:]`. A half-edge is
an edge seen from one end: the node at the other end (`far`), where its table starts (`table`), and the strides of the
near and the far value in it. `first[i]` to `first[i + 1]` are a node's half-edges. Every move keeps the cost of every
assignment, so that any sum of minima is a lower bound of the least cost (see dual.py).
"""

from __future__ import annotations

from tilewise.solver.problem import Ints
from tilewise.solver.search.native import Native


@Native
def sweep(
    rounds: int,
    count: int,
    size: Ints,
    at: Ints,
    first: Ints,
    far: Ints,
    table: Ints,
    near_stride: Ints,
    far_stride: Ints,
    share: Ints,
    unary: Ints,
    tables: Ints,
    part: Ints,
) -> int:
    """Sequential tree-reweighted message passing: forward and back through the nodes, so many rounds.

    A node gives each edge that points the way of the sweep an equal part of its costs, and the edge passes on all it
    can to its far end. `first` has two runs: half-edges to later nodes, then those to earlier ones. `part` has room for
    the values of a node.
    """
    back = 0
    for _ in range(2 * rounds):
        for t in range(count):
            i = count - 1 - t if back == 1 else t
            begin = first[back * (count + 1) + i]
            end = first[back * (count + 1) + i + 1]
            if begin < end:
                u = at[i]
                least = unary[u]
                for a in range(1, size[i]):
                    if unary[u + a] < least:
                        least = unary[u + a]
                for a in range(0, size[i]):
                    part[a] = (unary[u + a] - least) // share[i]
                    unary[u + a] -= part[a] * (end - begin)
                for h in range(begin, end):
                    j = far[h]
                    base = table[h]
                    near = near_stride[h]
                    step = far_stride[h]
                    for x in range(0, size[j]):
                        row = base + x * step
                        low = 4611686018427387904
                        for a in range(0, size[i]):
                            c = tables[row + a * near] + part[a]
                            tables[row + a * near] = c
                            low = c if c < low else low
                        for a in range(0, size[i]):
                            tables[row + a * near] -= low
                        unary[at[j] + x] += low
        back = 1 - back
    return 0


@Native
def bound(count: int, edges: int, size: Ints, at: Ints, start: Ints, unary: Ints, tables: Ints) -> int:
    """The sum of the least entries. `start[e]` to `start[e + 1]` is an edge's table."""
    total = 0
    for i in range(count):
        low = unary[at[i]]
        for a in range(at[i], at[i] + size[i]):
            low = unary[a] if unary[a] < low else low
        total += low
    for e in range(edges):
        low = tables[start[e]]
        for c in range(start[e], start[e + 1]):
            low = tables[c] if tables[c] < low else low
        total += low
    return total


@Native
def settle(
    count: int,
    rounds: int,
    size: Ints,
    at: Ints,
    first: Ints,
    far: Ints,
    table: Ints,
    near_stride: Ints,
    far_stride: Ints,
    unary: Ints,
    tables: Ints,
    values: Ints,
) -> int:
    """Give each node in turn its best value beside those before it; then beside all around it, until none changes.

    That goes on for so many rounds at most.
    """
    fresh = 1
    left = rounds + 1
    while left > 0:
        changes = 0
        for i in range(count):
            chosen = 0
            least = 4611686018427387904
            for a in range(0, size[i]):
                cost = unary[at[i] + a]
                for h in range(first[i], first[i + 1]):
                    j = far[h]
                    if fresh == 0:
                        cost += tables[table[h] + a * near_stride[h] + values[j] * far_stride[h]]
                    else:
                        if j < i:
                            cost += tables[table[h] + a * near_stride[h] + values[j] * far_stride[h]]
                if cost < least:
                    least = cost
                    chosen = a
            if chosen != values[i]:
                values[i] = chosen
                changes += 1
        left = left - 1 if changes + fresh > 0 else 0
        fresh = 0
    return 0


@Native
def slack(
    count: int,
    size: Ints,
    at: Ints,
    first: Ints,
    far: Ints,
    table: Ints,
    near_stride: Ints,
    far_stride: Ints,
    unary: Ints,
    tables: Ints,
    excess: Ints,
) -> int:
    """How much each value costs beyond the lower bound, at least: its own excess, and that of its rows."""
    for i in range(count):
        low = 4611686018427387904
        for a in range(0, size[i]):
            low = unary[at[i] + a] if unary[at[i] + a] < low else low
        for a in range(0, size[i]):
            excess[at[i] + a] = unary[at[i] + a] - low
        for h in range(first[i], first[i + 1]):
            least = 4611686018427387904
            for a in range(0, size[i]):
                for x in range(0, size[far[h]]):
                    c = tables[table[h] + a * near_stride[h] + x * far_stride[h]]
                    least = c if c < least else least
            for a in range(0, size[i]):
                row = 4611686018427387904
                for x in range(0, size[far[h]]):
                    c = tables[table[h] + a * near_stride[h] + x * far_stride[h]]
                    row = c if c < row else row
                excess[at[i] + a] += row - least
    return 0
