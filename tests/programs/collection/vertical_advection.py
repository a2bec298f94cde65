"""Implicit vertical advection: a tridiagonal solve along the last axis of a 3D field."""

import numpy as np

KIND = "array"
SMALL = 6
MEDIUM = 100


def initialize(n):
    rng = np.random.default_rng(7)
    levels = 24
    wind = rng.standard_normal((n + 1, n, levels))
    return np.zeros((n, n, levels)), rng.random((n, n, levels)), wind, 0.3


def program(tendency, field, wind, dt):
    levels = field.shape[2]
    c = np.ndarray(field.shape, field.dtype)
    d = np.ndarray(field.shape, dtype=field.dtype)
    w = 0.25 * (wind[1:, :, :] + wind[:-1, :, :])
    for k in range(levels):
        upper = w[:, :, k] if k < levels - 1 else np.zeros_like(w[:, :, k])
        lower = -w[:, :, k] if k > 0 else np.zeros_like(w[:, :, k])
        if k == 0:
            divisor = 1.0 / (1.0 / dt + np.abs(upper) + 1.0)
            c[:, :, 0] = upper * divisor
            d[:, :, 0] = field[:, :, 0] / dt * divisor
        else:
            divisor = 1.0 / (1.0 / dt + np.abs(upper) + np.abs(lower) - lower * c[:, :, k - 1])
            c[:, :, k] = upper * divisor
            d[:, :, k] = (field[:, :, k] / dt - lower * d[:, :, k - 1]) * divisor
    previous = d[:, :, levels - 1]
    tendency[:, :, -1] = (previous - field[:, :, -1]) / dt
    for k in range(levels - 2, -1, -1):
        previous = d[:, :, k] - c[:, :, k] * previous
        tendency[:, :, k] = (previous - field[:, :, k]) / dt
