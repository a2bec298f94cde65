"""Gravity by loops over pairs of bodies; rows of the arrays are views that are updated."""

import numpy as np

KIND = "element"
SMALL = 5
MEDIUM = 37


def initialize(n):
    rng = np.random.default_rng(35)
    return rng.random(n) + 0.5, rng.standard_normal((n, 3)), 0.1 * rng.standard_normal((n, 3))


def program(mass, position, velocity):
    n, dt = len(mass), 0.001
    for _ in range(3):
        for i in range(n):
            for j in range(i + 1, n):
                d = position[i] - position[j]
                distance = np.sqrt(d @ d + 1e-3)
                pull = dt / distance**3
                velocity[i] -= d * mass[j] * pull
                velocity[j] += d * mass[i] * pull
        for r, v in zip(position, velocity, strict=True):
            r += dt * v
    return (mass[:, None] * velocity).sum(axis=0)
