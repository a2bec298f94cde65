"""Multiresolution kernel: a contraction of the last axis of a 3D array, reshaped, by einsum and by loops."""

import numpy as np

KIND = "array"
SMALL = 6
MEDIUM = 65


def initialize(n):
    rng = np.random.default_rng(78)
    return rng.random((n, n, n + 2)), rng.random((n + 2, n + 2))


def program(a, c4):
    r, q, p = a.shape
    contracted = np.einsum("rqs,sp->rqp", a, c4)
    a[:] = np.reshape(np.reshape(a, (r, q, 1, p)) @ c4, (r, q, p))
    total = np.zeros(p)
    for i in range(r):
        plane = a[i]
        plane -= contracted[i].mean(axis=0)
        total += plane[0]
    return np.einsum("iij->j", contracted[:q, :r]), np.einsum("rqp,rqp->r", a, contracted), total
