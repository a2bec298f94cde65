"""Separable Gaussian blur of a float32 colour image with reflected ends."""

import numpy as np

KIND = "array"
SMALL = 12
MEDIUM = 470


def initialize(n):
    return np.random.default_rng(60).random((n, n, 3)).astype(np.float32), 1.5


def kernel(sigma):
    reach = int(3 * sigma)
    x = np.arange(-reach, reach + 1, dtype=np.float32)
    k = np.exp(-(x**2) / (2 * sigma**2))
    return k / k.sum()


def along(image, k, axis):
    reach = len(k) // 2
    width = [(0, 0)] * image.ndim
    width[axis] = (reach, reach)
    padded = np.moveaxis(np.pad(image, width, mode="reflect"), axis, 0)
    size = image.shape[axis]
    out = np.zeros_like(padded[:size])
    for i, weight in enumerate(k):
        out += weight * padded[i : i + size]
    return np.moveaxis(out, 0, axis)


def program(image, sigma):
    k = kernel(sigma)
    blurred = along(along(image, k, 0), k, 1)
    image += 0.5 * (image - blurred)
    return blurred, image.dtype == np.float32
