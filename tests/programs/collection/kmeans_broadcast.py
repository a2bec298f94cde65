"""k-means, all distances at once by broadcasting and the means by a loop over clusters."""

import numpy as np

KIND = "array"
SMALL = 60
MEDIUM = 6000


def initialize(n):
    rng = np.random.default_rng(26)
    return rng.standard_normal((n, 3)), 8


def program(points, k):
    centres = points[:k].copy()
    labels = np.zeros(len(points), dtype=int)
    for _ in range(4):
        distance = np.linalg.norm(points[:, np.newaxis, :] - centres[np.newaxis, :, :], axis=2)
        labels = distance.argmin(axis=1)
        centres = np.array([points[labels == j].mean(axis=0) for j in range(k)])
    return centres, labels
