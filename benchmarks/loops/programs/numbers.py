"""Whole numbers: sieves, histograms, own random generators."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import loops, rng


@loops(lambda n: (n,), 10_000, 500_000)
def prime_sieve(n):
    prime = np.ones(n + 1, dtype=np.bool_)
    prime[0] = prime[1] = False
    i = 2
    while i * i <= n:
        if prime[i]:
            for j in range(i * i, n + 1, i):
                prime[j] = False
        i += 1
    count = 0
    for i in range(n + 1):
        if prime[i]:
            count += 1
    return count, prime


@loops(lambda n: (n,), 10_000, 500_000)
def prime_sieve_slices(n):
    prime = np.ones(n + 1, dtype=bool)
    prime[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if prime[i]:
            prime[i * i :: i] = False
    return prime


@loops(lambda n: (rng().random(n), 64), 5_000, 500_000)
def histogram(x, bins):
    counts = np.zeros(bins, dtype=np.int64)
    for i in range(len(x)):
        counts[int(x[i] * bins)] += 1
    return counts


@loops(lambda n: (rng().normal(size=n), rng(1).normal(size=n), 32), 5_000, 300_000)
def histogram_2d(x, y, bins):
    counts = np.zeros((bins, bins))
    for i in range(len(x)):
        a = int(np.floor((x[i] + 4.0) / 8.0 * bins))
        b = int(np.floor((y[i] + 4.0) / 8.0 * bins))
        if 0 <= a < bins and 0 <= b < bins:
            counts[a, b] += 1.0
    return counts


@loops(lambda n: (12345, n), 5_000, 500_000)
def monte_carlo_pi(seed, n):
    state = seed
    inside = 0
    for _ in range(n):
        state = (1664525 * state + 1013904223) & 0xFFFFFFFF
        x = state / 4294967296.0
        state = (1664525 * state + 1013904223) & 0xFFFFFFFF
        y = state / 4294967296.0
        if x * x + y * y < 1.0:
            inside += 1
    return 4.0 * inside / n


@loops(lambda n: (2463534242, n), 5_000, 500_000)
def xorshift_walk(seed, n):
    x = seed
    place = lowest = highest = 0
    for _ in range(n):
        x ^= (x << 13) & 0xFFFFFFFF
        x ^= x >> 17
        x ^= (x << 5) & 0xFFFFFFFF
        place += 1 if x & 1 else -1
        lowest = min(lowest, place)
        highest = max(highest, place)
    return place, lowest, highest


@loops(lambda n: (7, n, 50), 100, 5_000)
def asian_option(seed, paths, steps):
    state = seed
    total = 0.0
    for _ in range(paths):
        price, mean = 100.0, 0.0
        for _ in range(steps):
            s = 0.0
            for _ in range(12):
                state = (1103515245 * state + 12345) % 2147483648
                s += state / 2147483648.0
            price *= np.exp(0.0001 + 0.02 * (s - 6.0))
            mean += price
        total += max(mean / steps - 100.0, 0.0)
    return total / paths


@loops(lambda n: (n,), 60, 400)
def gcd_table(n):
    table = np.zeros((n, n), dtype=np.int64)
    for i in range(n):
        for j in range(n):
            a, b = i, j
            while b:
                a, b = b, a % b
            table[i, j] = a
    return table


@loops(lambda n: (rng().integers(0, 1 << 40, n),), 2_000, 100_000)
def bit_counts(x):
    counts = np.zeros(64, dtype=np.int64)
    for v in x:
        bits = 0
        while v:
            v &= v - 1
            bits += 1
        counts[bits] += 1
    return counts


def trial_division_parallel(n):
    found = np.zeros(n, dtype=np.bool_)
    for p in prange(3, n):
        prime = True
        d = 2
        while d * d <= p:
            if p % d == 0:
                prime = False
                break
            d += 1
        found[p] = prime
    return found


@loops(lambda n: (n,), 2_000, 40_000, parallel=trial_division_parallel)
def trial_division(n):
    found = np.zeros(n, dtype=np.bool_)
    for p in range(3, n):
        prime = True
        d = 2
        while d * d <= p:
            if p % d == 0:
                prime = False
                break
            d += 1
        found[p] = prime
    return found


@loops(lambda n: (n,), 7, 9)
def count_queens(n):
    columns = np.zeros(n, dtype=np.int64)
    row, count = 0, 0
    columns[0] = -1
    while row >= 0:
        columns[row] += 1
        if columns[row] >= n:
            row -= 1
            continue
        free = True
        for k in range(row):
            if columns[k] == columns[row] or abs(columns[k] - columns[row]) == row - k:
                free = False
                break
        if not free:
            continue
        if row == n - 1:
            count += 1
        else:
            row += 1
            columns[row] = -1
    return count
