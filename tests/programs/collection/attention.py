"""Causal multi-head attention with einsum and a mask of minus infinity."""

import numpy as np

KIND = "array"
SMALL = 6
MEDIUM = 130


def initialize(n):
    rng = np.random.default_rng(48)
    return rng.standard_normal((2, n, 32)), [rng.standard_normal((32, 32)) / 6 for _ in range(4)], 4


def heads(x, w, count):
    batch, length, width = x.shape
    return (x @ w).reshape(batch, length, count, width // count).transpose(0, 2, 1, 3)


def program(x, weights, count):
    wq, wk, wv, wo = weights
    q, k, v = heads(x, wq, count), heads(x, wk, count), heads(x, wv, count)
    scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    future = np.triu(np.ones(scores.shape[-2:], dtype=bool), k=1)
    scores[..., future] = -np.inf
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1)[..., None]
    mixed = np.matmul(scores, v).swapaxes(1, 2).reshape(x.shape)
    return x + mixed @ wo, scores[0, 0]
