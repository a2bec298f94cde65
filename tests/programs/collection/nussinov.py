"""RNA folding by Nussinov's dynamic programme over single elements."""

import numpy as np

KIND = "element"
SMALL = 11
MEDIUM = 66


def initialize(n):
    return (np.random.default_rng(51).integers(0, 4, n, dtype=np.int8),)


def match(a, b):
    return 1 if a + b == 3 else 0


def program(sequence):
    n = len(sequence)
    table = np.zeros((n, n), np.int32)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            table[i, j] = max(table[i, j], table[i, j - 1])
            table[i, j] = max(table[i, j], table[i + 1, j])
            if i < j - 1:
                table[i, j] = max(table[i, j], table[i + 1, j - 1] + match(sequence[i], sequence[j]))
            else:
                table[i, j] = max(table[i, j], table[i + 1, j - 1])
            if j - i > 1:
                table[i, j] = max(table[i, j], np.max(table[i, i + 1 : j] + table[i + 2 : j + 1, j]))
    return table
