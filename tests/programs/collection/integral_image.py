"""Summed area table and box means of any size from four corners."""

import numpy as np

KIND = "array"
SMALL = 12
MEDIUM = 740


def initialize(n):
    return np.random.default_rng(63).integers(0, 256, (n, n), dtype=np.uint8), 2


def program(image, reach):
    table = np.zeros((image.shape[0] + 1, image.shape[1] + 1), dtype=np.int64)
    table[1:, 1:] = image.cumsum(axis=0, dtype=np.int64).cumsum(axis=1)
    size = 2 * reach + 1
    sums = table[size:, size:] - table[:-size, size:] - table[size:, :-size] + table[:-size, :-size]
    mean = sums / size**2
    dark = image[reach:-reach, reach:-reach] < 0.85 * mean
    quotient, remainder = np.divmod(sums, size * size)
    return table[-1, -1], mean, dark, quotient.astype(np.uint8), remainder.max()
