"""Names for one array: views of views, reversed and transposed views, swaps, updates through all of them."""

import numpy as np

KIND = "array"
SMALL = 6
MEDIUM = 1700


def initialize(n):
    a = np.arange(n * n, dtype=np.float64).reshape(n, n)
    return a, np.ones(n), a


def corner(a, size):
    return a[:size, :size]


def program(a, x, same):
    y = x
    y += 1
    x *= 2
    b = a.T
    b[0] = -1.0
    block = corner(b, 4)[::-1, 1:]
    block[1:3] += 0.5
    a[1:] += a[:-1]
    a[::2] -= a[::-2][::-1] if a.shape[0] % 2 else 0.25
    flat = a.reshape(-1)
    flat[3::7] = 9
    same[:, 0] += flat[:: a.shape[1]]
    diagonal = a.ravel()[:: a.shape[0] + 1]
    diagonal /= 2
    a[:, [0, -1]] = a[:, [-1, 0]]
    x, z = x[::-1], x.copy()
    x[:2] = 7
    z[...] = y[..., ::-1]
    for row in a[1:3]:
        row -= row.mean()
    b += 1
    return b[:3], z, x is y, np.shares_memory(a, b), np.swapaxes(a, 0, 1)[-1]
