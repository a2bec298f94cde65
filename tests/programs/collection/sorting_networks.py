"""Sorting rows: odd-even transposition on columns, sort, argsort, take_along_axis, searchsorted ranks."""

import numpy as np

KIND = "array"
SMALL = 8
MEDIUM = 8900


def initialize(n):
    return (np.random.default_rng(89).integers(-(10**6), 10**6, (n, 10), dtype=np.int32),)


def exchange(low, high):
    smaller, larger = np.minimum(low, high), np.maximum(low, high)
    low[...] = smaller
    high[...] = larger


def program(a):
    original = a.copy()
    width = a.shape[1]
    for turn in range(width):
        exchange(a[:, turn % 2 : width - 1 : 2], a[:, turn % 2 + 1 :: 2])
    order = np.argsort(original, axis=1, kind="stable")
    same = np.array_equal(np.take_along_axis(original, order, axis=1), a)
    original.sort(axis=0)
    ranks = np.searchsorted(original[:, 0], a[:, 0])
    return same, order, ranks, original[::-1, ::3], np.lexsort(a.T[::-1])
