"""A bottleneck block: 1x1, padded 3x3 and 1x1 convolutions, normalisation and a shortcut; float32."""

import numpy as np

KIND = "array"
SMALL = 4
MEDIUM = 18


def initialize(n):
    rng = np.random.default_rng(47)
    x = rng.random((2, n, n, 16), dtype=np.float32)
    w1 = rng.random((1, 1, 16, 4), dtype=np.float32)
    w2 = rng.random((3, 3, 4, 4), dtype=np.float32)
    w3 = rng.random((1, 1, 4, 16), dtype=np.float32)
    return x, w1, w2, w3


def conv(x, w):
    k = w.shape[0]
    rows, columns = x.shape[1] - k + 1, x.shape[2] - k + 1
    out = np.zeros((x.shape[0], rows, columns, w.shape[3]), dtype=x.dtype)
    for i in range(rows):
        for j in range(columns):
            out[:, i, j, :] = np.tensordot(x[:, i : i + k, j : j + k, :], w, axes=([1, 2, 3], [0, 1, 2]))
    return out


def normalise(x, eps=1e-5):
    mean = np.mean(x, axis=0, keepdims=True)
    std = np.std(x, axis=0, keepdims=True)
    return (x - mean) / np.sqrt(std + eps)


def program(x, w1, w2, w3):
    padded = np.pad(conv(x, w1), [(0, 0), (1, 1), (1, 1), (0, 0)])
    y = np.maximum(normalise(padded), 0)
    y = np.maximum(normalise(conv(y, w2)), 0)
    y = normalise(conv(y, w3))
    return np.maximum(y + x, 0)
