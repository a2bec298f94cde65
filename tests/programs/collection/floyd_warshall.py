"""All shortest paths, one outer minimum per intermediate vertex; integers."""

import numpy as np

KIND = "array"
SMALL = 20
MEDIUM = 240


def initialize(n):
    path = np.fromfunction(lambda i, j: i * j % 7 + 1, (n, n), dtype=np.int32)
    i, j = np.indices((n, n))
    far = ((i + j) % 13 == 0) | ((i + j) % 7 == 0) | ((i + j) % 11 == 0)
    path[far] = 999
    return (path,)


def program(path):
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))
    return path.max(), path.sum()
