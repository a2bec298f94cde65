"""k-means with masks, empty clusters kept, until no label changes."""

import numpy as np

KIND = "array"
SMALL = 50
MEDIUM = 6600


def initialize(n):
    rng = np.random.default_rng(27)
    offsets = rng.integers(0, 3, n)
    return rng.random((n, 2)) + offsets[:, None], 5


def program(points, k):
    step = points.shape[0] // k
    centres = points[::step][:k].copy()
    labels = np.full(points.shape[0], -1)
    changed = True
    rounds = 0
    while changed and rounds < 8:
        best = np.full(points.shape[0], np.inf)
        new = np.zeros_like(labels)
        for j, centre in enumerate(centres):
            d = ((points - centre) ** 2).sum(axis=1)
            closer = d < best
            best[closer] = d[closer]
            new[closer] = j
        changed = np.any(new != labels)
        labels[:] = new
        for j in range(k):
            mask = labels == j
            if mask.any():
                centres[j] = np.mean(points[mask], 0)
        rounds += 1
    return centres, labels, rounds, best.sum()
