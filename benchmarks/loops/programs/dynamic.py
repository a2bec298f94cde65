"""Dynamic programming on tables."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import loops, rng


def _letters(n, kinds=4, seed=0):
    return rng(seed).integers(0, kinds, n).astype(np.int32)


def _pair(n):
    return _letters(n, seed=0), _letters(n + n // 8, seed=1)


@loops(
    lambda n: (_letters(n),),
    50,
    180,
    c=lambda lib, s: lib("rna_pairs", len(s), s, out=np.zeros((len(s), len(s)), np.int32)),
)
def rna_pairs(seq):
    n = len(seq)
    table = np.zeros((n, n), np.int32)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            table[i, j] = max(table[i, j], table[i, j - 1])
            table[i, j] = max(table[i, j], table[i + 1, j])
            if i + 1 < n and j - 1 >= 0:
                if i < j - 1:
                    bond = 1 if seq[i] + seq[j] == 3 else 0
                    table[i, j] = max(table[i, j], table[i + 1, j - 1] + bond)
                else:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table


@loops(_pair, 80, 400)
def edit_distance(a, b):
    n, m = len(a), len(b)
    d = np.zeros((n + 1, m + 1), dtype=np.int64)
    for i in range(n + 1):
        d[i, 0] = i
    for j in range(m + 1):
        d[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d[n, m]


@loops(_pair, 100, 500)
def levenshtein_two_rows(a, b):
    before = list(range(len(b) + 1))
    before = np.array(before)
    now = np.zeros(len(b) + 1, dtype=before.dtype)
    for i in range(len(a)):
        now[0] = i + 1
        for j in range(len(b)):
            best = before[j] if a[i] == b[j] else before[j] + 1
            if before[j + 1] + 1 < best:
                best = before[j + 1] + 1
            if now[j] + 1 < best:
                best = now[j] + 1
            now[j + 1] = best
        before, now = now, before
    return int(before[len(b)])


@loops(_pair, 80, 400)
def longest_common_subsequence(a, b):
    n, m = len(a), len(b)
    t = np.zeros((n + 1, m + 1), dtype=np.int32)
    for i in range(n):
        for j in range(m):
            if a[i] == b[j]:
                t[i + 1, j + 1] = t[i, j] + 1
            elif t[i, j + 1] >= t[i + 1, j]:
                t[i + 1, j + 1] = t[i, j + 1]
            else:
                t[i + 1, j + 1] = t[i + 1, j]
    found = np.full(t[n, m], -1)
    i, j, at = n, m, t[n, m] - 1
    while i > 0 and j > 0:
        if a[i - 1] == b[j - 1]:
            found[at] = a[i - 1]
            i, j, at = i - 1, j - 1, at - 1
        elif t[i - 1, j] >= t[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return found


@loops(_pair, 70, 350)
def affine_alignment(a, b):
    n, m = len(a), len(b)
    start, extend = -5, -1
    best = np.full((n + 1, m + 1), -10_000)
    gap_a = np.full((n + 1, m + 1), -10_000)
    gap_b = np.full((n + 1, m + 1), -10_000)
    best[0, 0] = 0
    for i in range(1, n + 1):
        best[i, 0] = gap_a[i, 0] = start + extend * i
    for j in range(1, m + 1):
        best[0, j] = gap_b[0, j] = start + extend * j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            gap_a[i, j] = max(gap_a[i - 1, j] + extend, best[i - 1, j] + start + extend)
            gap_b[i, j] = max(gap_b[i, j - 1] + extend, best[i, j - 1] + start + extend)
            score = 3 if a[i - 1] == b[j - 1] else -2
            best[i, j] = max(best[i - 1, j - 1] + score, gap_a[i, j], gap_b[i, j])
    return best[n, m]


@loops(lambda n: (rng().integers(1, n, n), rng(1).integers(1, 100, n), 10 * n), 60, 300)
def knapsack(weights, values, capacity):
    best = np.zeros(capacity + 1, dtype=np.int64)
    for i in range(len(weights)):
        w = weights[i]
        for c in range(capacity, w - 1, -1):
            if best[c - w] + values[i] > best[c]:
                best[c] = best[c - w] + values[i]
    return best


@loops(lambda n: (np.array([1, 5, 12, 25, 60, 110]), n), 5_000, 200_000)
def coin_change(coins, total):
    ways = np.zeros(total + 1, dtype=np.int64)
    fewest = np.full(total + 1, total + 1)
    ways[0] = 1
    fewest[0] = 0
    for coin in coins:
        for t in range(coin, total + 1):
            ways[t] = (ways[t] + ways[t - coin]) % 1_000_000_007
            fewest[t] = min(fewest[t], fewest[t - coin] + 1)
    return ways[total], fewest[total]


def _hidden(n):
    r = rng()
    t = r.random((16, 16)) + 0.1
    e = r.random((16, 8)) + 0.1
    return (
        np.log(t / t.sum(1, keepdims=True)),
        np.log(e / e.sum(1, keepdims=True)),
        np.log(np.full(16, 1 / 16)),
        r.integers(0, 8, n),
    )


@loops(_hidden, 60, 2_000)
def viterbi(transition, emission, start, observed):
    steps, states = len(observed), len(start)
    score = start + emission[:, observed[0]]
    back = np.zeros((steps, states), dtype=np.int64)
    new = np.zeros(states)
    for t in range(1, steps):
        for s in range(states):
            best, at = -np.inf, 0
            for k in range(states):
                value = score[k] + transition[k, s]
                if value > best:
                    best, at = value, k
            new[s] = best + emission[s, observed[t]]
            back[t, s] = at
        score[:] = new
    path = np.zeros(steps, dtype=np.int64)
    path[-1] = np.argmax(score)
    for t in range(steps - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path


def forward_algorithm_loops(transition, emission, start, observed):
    states = len(start)
    p = np.exp(start)
    new = np.zeros(states)
    trans = np.exp(transition)
    emit = np.exp(emission)
    total = 0.0
    for t in range(len(observed)):
        norm = 0.0
        for s in range(states):
            v = 0.0
            for k in range(states):
                v += p[k] * trans[k, s]
            new[s] = v * emit[s, observed[t]]
            norm += new[s]
        for s in range(states):
            p[s] = new[s] / norm
        total += np.log(norm)
    return total


@loops(_hidden, 60, 2_000, own=forward_algorithm_loops)
def forward_algorithm(transition, emission, start, observed):
    p = np.exp(start)
    trans = np.exp(transition)
    emit = np.exp(emission)
    total = 0.0
    for o in observed:
        p = (p @ trans) * emit[:, o]
        norm = p.sum()
        p = p / norm
        total += np.log(norm)
    return total


@loops(lambda n: (rng().integers(5, 60, n + 1),), 40, 160)
def matrix_chain(dims):
    n = len(dims) - 1
    cost = np.zeros((n, n), dtype=np.int64)
    cut = np.zeros((n, n), dtype=np.int64)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cost[i, j] = 1 << 60
            for k in range(i, j):
                c = cost[i, k] + cost[k + 1, j] + dims[i] * dims[k + 1] * dims[j + 1]
                if c < cost[i, j]:
                    cost[i, j] = c
                    cut[i, j] = k
    return cost[0, n - 1], cut


@loops(lambda n: (rng().random(n).cumsum(), rng(1).random(n).cumsum()), 80, 400)
def time_warping(x, y):
    n, m = len(x), len(y)
    d = np.full((n + 1, m + 1), np.inf)
    d[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d[i, j] = abs(x[i - 1] - y[j - 1]) + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[n, m]


def floyd_warshall_parallel(path):
    n = len(path)
    for k in range(n):
        for i in prange(n):
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


@loops(
    lambda n: (rng().integers(1, 1000, (n, n)).astype(np.int32),),
    40,
    150,
    written=(0,),
    parallel=floyd_warshall_parallel,
    c=lambda lib, p: lib("floyd_warshall", len(p), out=p),
)
def floyd_warshall(path):
    n = len(path)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


@loops(
    lambda n: (rng().integers(1, 1000, (n, n)).astype(np.int32),),
    60,
    250,
    written=(0,),
    own=floyd_warshall_parallel,
    parallel=floyd_warshall_parallel,
)
def floyd_warshall_slices(path):
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))
