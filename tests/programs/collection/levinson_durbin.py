"""Levinson-Durbin recursion with reversed views that overlap their target."""

import numpy as np

KIND = "element"
SMALL = 30
MEDIUM = 1200


def initialize(n):
    return (0.5 ** np.arange(1, n + 1) * np.cos(np.arange(n)),)


def program(r):
    y = np.zeros_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(r[:k][::-1], y[:k])) / beta
        y[:k] += alpha * y[:k][::-1]
        y[k] = alpha
    return y
