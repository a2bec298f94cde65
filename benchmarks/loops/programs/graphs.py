"""Walks over graphs and trees that are kept in arrays, and sparse products by hand."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import loops, rng


def _csr(n, degree=8):
    r = rng()
    counts = r.integers(1, 2 * degree, n)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return starts, r.integers(0, n, starts[-1]), r.random(starts[-1])


def spmv_parallel(starts, columns, values, x):
    n = len(starts) - 1
    y = np.zeros(n)
    for i in prange(n):
        s = 0.0
        for k in range(starts[i], starts[i + 1]):
            s += values[k] * x[columns[k]]
        y[i] = s
    return y


@loops(
    lambda n: (*_csr(n), rng(1).random(n)),
    1_000,
    50_000,
    parallel=spmv_parallel,
    c=lambda lib, s, c, v, x: lib("spmv_csr", len(x), s, c, v, x, out=np.empty(len(x))),
)
def spmv_csr(starts, columns, values, x):
    n = len(starts) - 1
    y = np.zeros(n)
    for i in range(n):
        for k in range(starts[i], starts[i + 1]):
            y[i] += values[k] * x[columns[k]]
    return y


@loops(lambda n: (*_csr(n), rng(1).random(n)), 300, 10_000)
def spmv_csr_slices(starts, columns, values, x):
    y = np.empty(len(starts) - 1)
    for i in range(len(starts) - 1):
        cols = columns[starts[i] : starts[i + 1]]
        vals = values[starts[i] : starts[i + 1]]
        y[i] = vals @ x[cols]
    return y


@loops(lambda n: (*_csr(n, 4)[:2], 0), 1_000, 50_000)
def breadth_first(starts, targets, root):
    n = len(starts) - 1
    depth = np.full(n, -1)
    queue = np.empty(n, dtype=np.int64)
    depth[root] = 0
    queue[0] = root
    head, tail = 0, 1
    while head < tail:
        v = queue[head]
        head += 1
        for k in range(starts[v], starts[v + 1]):
            w = targets[k]
            if depth[w] < 0:
                depth[w] = depth[v] + 1
                queue[tail] = w
                tail += 1
    return depth


@loops(lambda n: (n, rng().integers(0, n, (n, 2))), 1_000, 50_000)
def union_find(n, edges):
    parent = np.arange(n)
    size = np.ones(n, dtype=np.int64)

    def find(x):
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    groups = n
    for e in range(len(edges)):
        a, b = find(edges[e, 0]), find(edges[e, 1])
        if a == b:
            continue
        if size[a] < size[b]:
            a, b = b, a
        parent[b] = a
        size[a] += size[b]
        groups -= 1
    for x in range(n):
        parent[x] = find(x)
    return groups, parent


@loops(lambda n: (*_csr(n, 6), 0), 150, 700)
def dijkstra(starts, targets, lengths, root):
    n = len(starts) - 1
    distance = np.full(n, np.inf)
    done = np.zeros(n, dtype=np.bool_)
    distance[root] = 0.0
    for _ in range(n):
        best = -1
        for v in range(n):
            if not done[v] and (best < 0 or distance[v] < distance[best]):
                best = v
        if best < 0 or distance[best] == np.inf:
            break
        done[best] = True
        for k in range(starts[best], starts[best + 1]):
            d = distance[best] + lengths[k]
            if d < distance[targets[k]]:
                distance[targets[k]] = d
    return distance


@loops(lambda n: (*_csr(n, 6)[:2], 10, 0.85), 500, 10_000)
def pagerank_edges(starts, targets, steps, damping):
    n = len(starts) - 1
    rank = np.full(n, 1.0 / n)
    for _ in range(steps):
        new = np.full(n, (1.0 - damping) / n)
        for v in range(n):
            share = damping * rank[v] / (starts[v + 1] - starts[v])
            for k in range(starts[v], starts[v + 1]):
                new[targets[k]] += share
        rank = new
    return rank


@loops(lambda n: (rng().permutation(n),), 500, 10_000)
def binary_tree(keys):
    n = len(keys)
    left = np.full(n, -1)
    right = np.full(n, -1)
    deepest = 0
    for i in range(1, n):
        at, depth = 0, 1
        while True:
            depth += 1
            if keys[i] < keys[at]:
                if left[at] < 0:
                    left[at] = i
                    break
                at = left[at]
            else:
                if right[at] < 0:
                    right[at] = i
                    break
                at = right[at]
        if depth > deepest:
            deepest = depth
    order = np.empty(n, dtype=keys.dtype)
    stack = np.empty(n, dtype=np.int64)
    top, at, count = 0, 0, 0
    while top > 0 or at >= 0:
        while at >= 0:
            stack[top] = at
            top += 1
            at = left[at]
        top -= 1
        at = stack[top]
        order[count] = keys[at]
        count += 1
        at = right[at]
    return deepest, order


def _sorted_graph(n):
    near = rng().random((n, n)) < 8 / n
    near = np.triu(near, 1)
    near = near | near.T
    return np.concatenate([[0], np.cumsum(near.sum(1))]), np.nonzero(near)[1]


@loops(_sorted_graph, 300, 2_000)
def count_triangles(starts, targets):
    total = 0
    for u in range(len(starts) - 1):
        for k in range(starts[u], starts[u + 1]):
            v = targets[k]
            if v <= u:
                continue
            i, j = starts[u], starts[v]
            while i < starts[u + 1] and j < starts[v + 1]:
                if targets[i] < targets[j]:
                    i += 1
                elif targets[i] > targets[j]:
                    j += 1
                else:
                    if targets[i] > v:
                        total += 1
                    i += 1
                    j += 1
    return total
