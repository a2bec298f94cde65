"""Run-length encoding by differences, decoded again with np.repeat."""

import numpy as np

KIND = "array"
SMALL = 60
MEDIUM = 520000


def initialize(n):
    rng = np.random.default_rng(87)
    return (np.repeat(rng.integers(-3, 4, n), rng.integers(1, 6, n))[:n].astype(np.int16),)


def program(signal):
    edges = np.flatnonzero(np.diff(signal)) + 1
    starts = np.r_[0, edges]
    lengths = np.diff(np.r_[starts, signal.size])
    values = signal[starts]
    decoded = np.repeat(values, lengths)
    assert (decoded == signal).all()
    longest = np.zeros(7, dtype=lengths.dtype)
    for value in range(-3, 4):
        longest[value] = lengths[values == value].max(initial=0)
    return values, lengths, longest, np.packbits(signal > 0)
