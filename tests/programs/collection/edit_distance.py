"""Levenshtein distance by rows, the insertions with minimum.accumulate."""

import numpy as np

KIND = "element"
SMALL = 24
MEDIUM = 800


def initialize(n):
    rng = np.random.default_rng(53)
    return rng.integers(97, 101, n).astype(np.uint8), rng.integers(97, 101, n // 2 + 4).astype(np.uint8)


def program(a, b):
    offset = np.arange(len(b) + 1)
    row = offset.copy()
    for i, letter in enumerate(a, start=1):
        new = np.empty_like(row)
        new[0] = i
        new[1:] = np.minimum(row[1:] + 1, row[:-1] + (b != letter))
        row = np.minimum.accumulate(new - offset) + offset
    return int(row[-1]), row
