"""A small convolutional network: convolution, bias, relu, max pooling, dense layers; float32."""

import numpy as np

KIND = "array"
SMALL = 2
MEDIUM = 77


def initialize(n):
    rng = np.random.default_rng(43)

    def weights(*shape):
        return (rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(np.prod(shape[:-1])))).astype("f4")

    image = rng.random((n, 16, 16, 1), dtype=np.float32)
    return (
        image,
        [weights(3, 3, 1, 6), weights(3, 3, 6, 8)],
        [weights(6), weights(8)],
        {"w1": weights(32, 24), "b1": weights(24), "w2": weights(24, 10), "b2": weights(10)},
    )


def relu(x):
    return np.maximum(x, 0)


def conv2d(x, w):
    k = w.shape[0]
    n, height, width, _ = x.shape
    out = np.empty((n, height - k + 1, width - k + 1, w.shape[3]), dtype=np.float32)
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            patch = x[:, i : i + k, j : j + k, :, np.newaxis]
            out[:, i, j, :] = np.sum(patch * w[np.newaxis, :, :, :], axis=(1, 2, 3))
    return out


def maxpool(x):
    n, height, width, c = x.shape
    out = np.empty([n, height // 2, width // 2, c], dtype=x.dtype)
    for i in range(height // 2):
        for j in range(width // 2):
            out[:, i, j, :] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return out


def program(x, kernels, biases, dense):
    for w, b in zip(kernels, biases, strict=True):
        x = maxpool(relu(conv2d(x, w) + b))
    x = np.reshape(x, (x.shape[0], -1))
    x = relu(x @ dense["w1"] + dense["b1"])
    return x @ dense["w2"] + dense["b2"]
