"""k-means by matrix products: squared distances expanded and a one-hot matrix for the means."""

import numpy as np

KIND = "array"
SMALL = 40
MEDIUM = 17000


def initialize(n):
    rng = np.random.default_rng(28)
    return rng.random((n, 4)), np.eye(6)


def program(points, identity):
    k = identity.shape[0]
    centres = points[-k:]
    for _ in range(6):
        d = (points**2).sum(1, keepdims=True) - 2 * points @ centres.T + (centres**2).sum(1)
        onehot = identity[np.argmin(d, axis=1)]
        counts = onehot.sum(axis=0)
        centres = onehot.T @ points / np.maximum(counts, 1)[:, None]
    return centres, counts.astype(np.int32)
