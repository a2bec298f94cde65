"""Recursive radix-2 FFT with a matrix base case, against np.fft."""

import numpy as np

KIND = "array"
SMALL = 64
MEDIUM = 8192


def initialize(n):
    rng = np.random.default_rng(39)
    return (rng.standard_normal(n) + 1j * rng.standard_normal(n),)


def dft(x):
    n = len(x)
    k = np.arange(n)
    return np.exp(-2j * np.pi * k * k[:, np.newaxis] / n) @ x


def fft(x):
    n = x.shape[0]
    if n <= 32:
        return dft(x)
    even, odd = fft(x[::2]), fft(x[1::2])
    factor = np.exp(-2j * np.pi * np.arange(n) / n)
    return np.concatenate([even + factor[: n // 2] * odd, even + factor[n // 2 :] * odd])


def program(x):
    y = fft(x)
    return y, np.allclose(y, np.fft.fft(x)), np.abs(y).argmax()
