"""Softmax over the last axis of a four-dimensional float32 array, and its logarithm."""

import numpy as np

KIND = "array"
SMALL = 4
MEDIUM = 290


def initialize(n):
    return (np.random.default_rng(44).standard_normal((4, 2, n, n)).astype(np.float32),)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def log_softmax(x, axis):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def program(x):
    p = softmax(x)
    entropy = -np.sum(p * log_softmax(x, -1), axis=-1)
    return p, entropy, np.logaddexp.reduce(x, axis=2)
