"""American put on a binomial tree, values rolled back over one array."""

import numpy as np

KIND = "element"
SMALL = 30
MEDIUM = 570


def initialize(n):
    return np.array([90.0, 100.0, 110.0]), 100.0, 0.25, 0.03, 1.0, n


def program(spots, strike, sigma, rate, maturity, steps):
    dt = maturity / steps
    up = np.exp(sigma * np.sqrt(dt))
    down = 1 / up
    q = (np.exp(rate * dt) - down) / (up - down)
    discount = np.exp(-rate * dt)
    exponent = np.arange(steps, -steps - 1, -2)
    asset = spots[:, None] * up**exponent
    value = np.maximum(strike - asset, 0.0)
    for level in range(steps - 1, -1, -1):
        value = discount * (q * value[:, :-1] + (1 - q) * value[:, 1:])
        exercise = strike - spots[:, None] * up ** np.arange(level, -level - 1, -2)
        value = np.where(exercise > value, exercise, value)
    return value[:, 0]
