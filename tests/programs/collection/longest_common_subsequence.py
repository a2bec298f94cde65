"""Longest common subsequence with a table of elements and the way back."""

import numpy as np

KIND = "element"
SMALL = 10
MEDIUM = 150


def initialize(n):
    rng = np.random.default_rng(52)
    return rng.integers(0, 4, n), rng.integers(0, 4, n + 3)


def program(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if x == y:
                table[i + 1, j + 1] = table[i, j] + 1
            else:
                table[i + 1, j + 1] = max(table[i, j + 1], table[i + 1, j])
    i, j = table.shape[0] - 1, table.shape[1] - 1
    common = []
    while i > 0 and j > 0:
        if a[i - 1] == b[j - 1]:
            common.append(int(a[i - 1]))
            i, j = i - 1, j - 1
        elif table[i - 1, j] >= table[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return common[::-1], table[-1, -1]
