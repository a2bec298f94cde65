"""Sums of small matrix products over momentum and energy indices with wrapped indices."""

import numpy as np

KIND = "element"
SMALL = 2
MEDIUM = 8


def initialize(n):
    rng = np.random.default_rng(95)

    def block(*shape):
        return rng.random(shape) + 1j * rng.random(shape)

    return rng.integers(0, 6, (6, 3)), block(6, 3, 3), block(n, 4, 6, 3, 3), block(n, 2, 6, 3, 2, 2)


def program(neighbours, dh, g, d):
    sigma = np.zeros_like(g)
    for k in range(g.shape[0]):
        for q in range(d.shape[0]):
            for e in range(g.shape[1]):
                for w in range(d.shape[1]):
                    if e - w < 0:
                        continue
                    for i in range(2):
                        for b in range(neighbours.shape[1]):
                            f = neighbours[e, b]
                            dhg = g[k, e - w, f] @ dh[i + f % 3]
                            sigma[k, e, f] += dhg * d[q, w, f, b, i, 1 - i]
    return sigma.real.sum(axis=(3, 4))
