"""Clusters of a random grid labelled by relaxation until nothing changes."""

import numpy as np

KIND = "array"
SMALL = 12
MEDIUM = 86


def initialize(n):
    return (np.random.default_rng(86).random((n, n)) < 0.55,)


def program(open_sites):
    n = open_sites.shape[0]
    labels = np.where(open_sites, np.arange(1, n * n + 1).reshape(n, n), 0)
    rounds = 0
    while True:
        before = labels.copy()
        for axis in (0, 1):
            view = labels if axis == 0 else labels.T
            mask = open_sites if axis == 0 else open_sites.T
            view[1:] = np.where(mask[1:], np.maximum(view[1:], view[:-1]), 0)
            view[:-1] = np.where(mask[:-1], np.maximum(view[:-1], view[1:]), 0)
        rounds += 1
        if (labels == before).all():
            break
    found, sizes = np.unique(labels[labels > 0], return_counts=True)
    spanning = np.intersect1d(labels[0][labels[0] > 0], labels[-1][labels[-1] > 0])
    return labels, rounds, found[sizes.argmax()], np.sort(sizes)[::-1], spanning, spanning.size > 0
