"""Red-black successive over-relaxation with strided slices."""

import numpy as np

KIND = "array"
SMALL = 12
MEDIUM = 260


def initialize(n):
    u = np.zeros((n, n))
    f = np.random.default_rng(9).standard_normal((n, n))
    return u, f, 1.7


def relax(u, f, omega, rows, columns, h2):
    r0, c0 = rows.start, columns.start
    around = (
        u[r0 - 1 : -2 : 2, c0:-1:2] + u[r0 + 1 :: 2, c0:-1:2] + u[r0:-1:2, c0 - 1 : -2 : 2] + u[r0:-1:2, c0 + 1 :: 2]
    )
    u[rows, columns] += omega * (0.25 * (around - h2 * f[rows, columns]) - u[rows, columns])


def program(u, f, omega):
    h2 = 1.0 / (u.shape[0] - 1) ** 2
    odd, even = slice(1, -1, 2), slice(2, -1, 2)
    for _ in range(15):
        for rows, columns in ((odd, odd), (even, even), (odd, even), (even, odd)):
            relax(u, f, omega, rows, columns, h2)
    return np.linalg.norm(u)
