"""Stockham's FFT: reshaped passes with no bit reversal."""

import numpy as np

KIND = "array"
SMALL = 5
MEDIUM = 16


def initialize(n):
    rng = np.random.default_rng(40)
    x = rng.random(2**n) + 1j * rng.random(2**n)
    return n, x, np.zeros_like(x)


def program(k, x, y):
    size = x.shape[0]
    y[:] = x
    span = 1
    for _ in range(k):
        half = size // (2 * span)
        pairs = np.reshape(y, (2, half, span))
        angle = np.exp(-1j * np.pi * np.arange(span) / span)
        turned = pairs[1] * angle
        passed = np.empty((half, 2, span), dtype=y.dtype)
        passed[:, 0, :] = pairs[0] + turned
        passed[:, 1, :] = pairs[0] - turned
        y[:] = passed.reshape(-1)
        span *= 2
    return np.max(np.abs(y - np.fft.fft(x))) < 1e-6
