"""A product by blocks with out= arguments, tiles put together by np.block and Kronecker products."""

import numpy as np

KIND = "array"
SMALL = 8
MEDIUM = 400


def initialize(n):
    rng = np.random.default_rng(92)
    return rng.random((n, n)), rng.random((n, n)), np.empty((n, n))


def program(a, b, c):
    n = len(a)
    size = n // 4
    work = np.empty((size, size))
    c.fill(0)
    for i in range(0, n, size):
        for j in range(0, n, size):
            tile = c[i : i + size, j : j + size]
            for k in range(0, n, size):
                np.dot(a[i : i + size, k : k + size], b[k : k + size, j : j + size], out=work)
                np.add(tile, work, tile)
    joined = np.block([[a[:size, :size], np.zeros((size, 2))], [np.ones((2, size)), np.identity(2)]])
    tiled = np.tile(a[:2, :2], (2, 3))
    return np.allclose(c, a @ b), joined, tiled, np.kron(np.eye(2), a[:2, :3]), np.split(a[0], 4)[2]
