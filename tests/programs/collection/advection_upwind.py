"""Upwind advection with a velocity of either sign and periodic ends."""

import numpy as np

KIND = "array"
SMALL = 40
MEDIUM = 35000


def initialize(n):
    x = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False)
    velocity = np.cos(x) + 0.25
    density = np.exp(-10.0 * (x - np.pi) ** 2)
    return density, velocity, 0.4 * (x[1] - x[0]), x[1] - x[0]


def program(density, velocity, dt, dx):
    forward = np.maximum(velocity, 0)
    backward = np.minimum(velocity, 0)
    for _ in range(40):
        left = (density - np.roll(density, 1)) / dx
        right = (np.roll(density, -1) - density) / dx
        density -= dt * (forward * left + backward * right)
    mass = np.sum(density) * dx
    return mass, density.argmax()
