"""PageRank on a dense matrix with dangling pages."""

import numpy as np

KIND = "array"
SMALL = 15
MEDIUM = 1000


def initialize(n):
    rng = np.random.default_rng(33)
    links = (rng.random((n, n)) < 0.05).astype(np.float64)
    np.fill_diagonal(links, 0)
    return links, 0.85


def program(links, damping):
    n = links.shape[0]
    out = links.sum(axis=1)
    dangling = out == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        transition = (links / out[:, np.newaxis]).T
    transition[:, dangling] = 1.0 / n
    rank = np.ones(n) / n
    steps = 0
    while steps < 100:
        new = damping * transition @ rank + (1.0 - damping) / n
        if np.abs(new - rank).sum() < 1e-9:
            break
        rank = new
        steps += 1
    order = np.argsort(-np.round(rank, 9), kind="stable")
    return rank, steps, order[:5]
