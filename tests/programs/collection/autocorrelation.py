"""Autocorrelation by lags, by np.correlate and by FFT with zeros added."""

import numpy as np

KIND = "array"
SMALL = 32
MEDIUM = 7200


def initialize(n):
    t = np.arange(n)
    return np.sin(2 * np.pi * t / 16) + 0.5 * np.random.default_rng(82).standard_normal(n), 20


def program(x, lags):
    x = x - x.mean()
    direct = np.array([np.sum(x[: len(x) - lag] * x[lag:]) for lag in range(lags)])
    direct /= direct[0]
    full = np.correlate(x, x, mode="full")[x.size - 1 :][:lags]
    size = 1 << (2 * len(x) - 1).bit_length()
    f = np.fft.rfft(x, size)
    fast = np.fft.irfft(f * np.conj(f))[:lags]
    rising = np.diff(np.sign(np.diff(direct)))
    return direct, full / full[0], fast / fast[0], np.where(rising < 0)[0] + 1
