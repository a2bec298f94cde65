"""Jacobi relaxation for Laplace's equation with swapped buffers and a residual test."""

import numpy as np

KIND = "array"
SMALL = 16
MEDIUM = 240


def initialize(n):
    u = np.zeros((n, n))
    u[0, :] = 1.0
    u[:, 0] = np.linspace(1.0, 0.0, n)
    rhs = 0.01 * np.random.default_rng(1).standard_normal((n, n))
    return u, rhs


def program(u, rhs, tolerance=1e-9, most=40):
    new = u.copy()
    residual = np.inf
    count = 0
    while residual > tolerance and count < most:
        new[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - rhs[1:-1, 1:-1])
        residual = np.max(np.abs(new - u))
        u, new = new, u
        count += 1
    return u, residual, count
