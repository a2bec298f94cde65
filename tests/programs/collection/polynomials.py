"""Polynomials: Horner, Vandermonde least squares, roots, Newton with a mask of those not yet settled."""

import numpy as np

KIND = "array"
SMALL = 20
MEDIUM = 110000


def initialize(n):
    x = np.linspace(-1.0, 1.0, n)
    y = 1 - 2 * x + 0.5 * x**3 + 0.01 * np.random.default_rng(93).standard_normal(n)
    return x, y


def horner(coefficients, x):
    value = np.zeros_like(x)
    for c in coefficients:
        value = value * x + c
    return value


def program(x, y):
    v = np.vander(x, 5)
    c = np.linalg.solve(v.T @ v, v.T @ y)
    residual = y - horner(c, x)
    guess = 2.0 + x
    active = np.ones(guess.shape, bool)
    steps = 0
    while np.any(active) and steps < 30:
        g = guess[active]
        move = (g**3 - 2 * g - 5) / (3 * g**2 - 2)
        guess[active] = g - move
        active[active] = np.abs(move) > 1e-8
        steps += 1
    roots = np.sort(np.roots([1.0, 0.0, -7.0, 6.0]).real)
    return c, residual.std(ddof=1), guess, steps, roots, np.polyval([2, 0, 1], 3), np.all(np.isclose(guess, guess[0]))
