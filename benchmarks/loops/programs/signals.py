"""Signals: Fourier transforms by hand, convolutions, filters, wavelets."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import loops, rng


def _complex(n):
    n = 1 << (n - 1).bit_length()
    return (rng().random(n) + 1j * rng(1).random(n),)


@loops(_complex, 256, 8192, c=lambda lib, x: lib("fft_radix_two", len(x), x, out=np.empty_like(x)))
def fft_radix_two(x):
    n = len(x)
    a = np.empty(n, dtype=np.complex128)
    bits = 0
    while (1 << bits) < n:
        bits += 1
    for i in range(n):
        r = 0
        for b in range(bits):
            if i & (1 << b):
                r |= 1 << (bits - 1 - b)
        a[r] = x[i]
    half = 1
    while half < n:
        step = np.exp(-1j * np.pi / half)
        for start in range(0, n, 2 * half):
            w = 1.0 + 0.0j
            for k in range(start, start + half):
                t = w * a[k + half]
                a[k + half] = a[k] - t
                a[k] = a[k] + t
                w = w * step
        half *= 2
    return a


def fourier_sums_parallel(x):
    n = len(x)
    out = np.empty(n, dtype=np.complex128)
    for k in prange(n):
        s = 0.0 + 0.0j
        for t in range(n):
            s += x[t] * np.exp(-2j * np.pi * (k * t % n) / n)
        out[k] = s
    return out


@loops(_complex, 64, 256, parallel=fourier_sums_parallel)
def fourier_sums(x):
    n = len(x)
    out = np.empty(n, dtype=np.complex128)
    for k in range(n):
        s = 0.0 + 0.0j
        for t in range(n):
            s += x[t] * np.exp(-2j * np.pi * (k * t % n) / n)
        out[k] = s
    return out


def convolution_parallel(x, taps):
    n, m = len(x), len(taps)
    out = np.zeros(n - m + 1)
    for i in prange(n - m + 1):
        s = 0.0
        for k in range(m):
            s += x[i + k] * taps[m - 1 - k]
        out[i] = s
    return out


@loops(lambda n: (rng().random(n), rng(1).random(32)), 1_000, 50_000, parallel=convolution_parallel)
def convolution(x, taps):
    n, m = len(x), len(taps)
    out = np.zeros(n - m + 1)
    for i in range(n - m + 1):
        for k in range(m):
            out[i] += x[i + k] * taps[m - 1 - k]
    return out


@loops(lambda n: (rng().random(n), np.array([0.2, 0.3, 0.2]), np.array([0.4, -0.2])), 2_000, 200_000)
def recursive_filter(x, b, a):
    y = np.zeros(len(x))
    for n in range(len(x)):
        s = 0.0
        for k in range(len(b)):
            if n - k >= 0:
                s += b[k] * x[n - k]
        for k in range(len(a)):
            if n - k - 1 >= 0:
                s += a[k] * y[n - k - 1]
        y[n] = s
    return y


def autocorrelation_parallel(x, lags):
    n = len(x)
    mean = 0.0
    for i in range(n):
        mean += x[i]
    mean /= n
    out = np.zeros(lags)
    for k in prange(lags):
        s = 0.0
        for i in range(n - k):
            s += (x[i] - mean) * (x[i + k] - mean)
        out[k] = s
    return out / out[0]


@loops(lambda n: (rng().random(n), 50), 500, 20_000, own=autocorrelation_parallel, parallel=autocorrelation_parallel)
def autocorrelation(x, lags):
    d = x - x.mean()
    out = np.empty(lags)
    for k in range(lags):
        out[k] = np.sum(d[: len(d) - k] * d[k:])
    return out / out[0]


@loops(lambda n: (rng().random(1 << (n - 1).bit_length()),), 1024, 1 << 17)
def haar_wavelet(x):
    out = x.copy()
    n = len(x)
    r = np.sqrt(0.5)
    while n > 1:
        half = n // 2
        new = np.empty(n)
        for i in range(half):
            new[i] = (out[2 * i] + out[2 * i + 1]) * r
            new[half + i] = (out[2 * i] - out[2 * i + 1]) * r
        out[:n] = new
        n = half
    return out


@loops(lambda n: (rng().random(n), 25), 500, 20_000)
def running_maximum(x, window):
    n = len(x)
    out = np.empty(n - window + 1)
    queue = np.empty(n, dtype=np.int64)
    head = tail = 0
    for i in range(n):
        while tail > head and x[queue[tail - 1]] <= x[i]:
            tail -= 1
        queue[tail] = i
        tail += 1
        if queue[head] <= i - window:
            head += 1
        if i >= window - 1:
            out[i - window + 1] = x[queue[head]]
    return out
