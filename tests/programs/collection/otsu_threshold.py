"""Otsu's threshold from cumulative histograms of a uint8 image."""

import numpy as np

KIND = "array"
SMALL = 16
MEDIUM = 900


def initialize(n):
    rng = np.random.default_rng(62)
    low, high = rng.normal(70, 12, (n, n)), rng.normal(170, 20, (n, n))
    picked = np.where(rng.random((n, n)) < 0.4, low, high)
    return (picked.clip(0, 255).astype(np.uint8),)


def program(image):
    histogram = np.bincount(image.ravel(), minlength=256)
    p = histogram / image.size
    omega = p.cumsum()
    mu = np.cumsum(p * np.arange(256))
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (mu[-1] * omega - mu) ** 2 / (omega * (1 - omega))
    between[~np.isfinite(between)] = -1
    threshold = int(np.argmax(between))
    binary = image > threshold
    image[binary], image[~binary] = 255, 0
    return threshold, binary.mean(), image.mean(dtype=np.float32)
