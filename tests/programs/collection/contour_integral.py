"""Beyn-like contour integral: complex solves at points of a circle, moments in a list."""

import numpy as np

KIND = "array"
SMALL = 6
MEDIUM = 140


def initialize(n):
    rng = np.random.default_rng(94)
    return rng.standard_normal((n, n)), rng.standard_normal((n, n)), rng.standard_normal((n, 3)), 16


def program(a, b, y, points):
    moments = [np.zeros((a.shape[0], 3), dtype=np.complex128), np.zeros((a.shape[0], 3), dtype=np.complex128)]
    angles = 2 * np.pi * (np.arange(points) + 0.5) / points
    for z in 0.4 * np.exp(1j * angles):
        t = np.zeros(a.shape, dtype=complex)
        for power, part in enumerate((a, b, 10 * np.eye(a.shape[0]))):
            t += np.power(z, power) * part
        x = np.linalg.inv(t) @ y if a.shape[0] < 8 else np.linalg.solve(t, y)
        for power, moment in enumerate(moments):
            moment += z ** (power + 1) * x / points
    return moments, np.abs(moments[0]).max(), np.real(np.trace(moments[1][:3]))
