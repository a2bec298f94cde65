"""Pi by random points, drawn in batches inside the programme."""

import numpy as np

KIND = "array"
SMALL = 200
MEDIUM = 270000


def initialize(n):
    return 65, n


def program(seed, n):
    rng = np.random.default_rng(seed)
    hits = 0
    estimates = []
    for batch in range(4):
        x, y = rng.random((2, n))
        hits += np.count_nonzero(x * x + y * y <= 1.0)
        estimates.append(4 * hits / (n * (batch + 1)))
    walk = rng.choice([-1, 1], size=n).cumsum()
    order = rng.permutation(10)
    return estimates, f"{estimates[-1]:.4f} after {len(estimates)}", walk[-1], order, rng.integers(0, 9, 5)
