"""Lorenz's equations by Runge-Kutta with vectors of three, an integral by trapezoids."""

import numpy as np

KIND = "element"
SMALL = 12
MEDIUM = 710


def initialize(n):
    return np.array([1.0, 1.0, 1.0]), 0.01, n


def rate(state, sigma=10.0, rho=28.0, beta=8 / 3):
    x, y, z = state
    return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def program(state, dt, steps):
    path = np.zeros((steps + 1, 3))
    path[0] = state
    for i in range(steps):
        k1 = rate(state)
        k2 = rate(state + dt / 2 * k1)
        k3 = rate(state + dt / 2 * k2)
        k4 = rate(state + dt * k3)
        state += dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path[i + 1] = state
    t = np.linspace(0, dt * steps, steps + 1)
    area = np.trapezoid(path[:, 2], t)
    by_hand = np.sum((path[1:, 2] + path[:-1, 2]) / 2 * np.diff(t))
    length = np.sqrt((np.diff(path, axis=0) ** 2).sum(axis=1)).sum()
    return path, area, by_hand, f"{length:.3f} in {steps} steps, z = {path[-1, 2]:8.3f}"
