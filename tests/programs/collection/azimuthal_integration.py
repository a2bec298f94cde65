"""A profile over radius: two weighted histograms and their ratio."""

import numpy as np

KIND = "array"
SMALL = 12
MEDIUM = 510


def initialize(n):
    image = np.random.default_rng(54).random((n, n))
    y, x = np.ogrid[:n, :n]
    radius = np.sqrt((x - n / 2 + 0.25) ** 2 + (y - n / 2 + 0.125) ** 2)
    return image, radius, 20


def edges(values, bins):
    low, high = values.min(), values.max()
    return np.linspace(low, high, bins + 1)


def histogram(values, limits, weights=None):
    which = np.searchsorted(limits, values, side="right") - 1
    which[values == limits[-1]] = limits.size - 2
    return np.bincount(which, weights=weights, minlength=limits.size - 1)


def program(image, radius, bins):
    limits = edges(radius, bins)
    flat = radius.reshape(-1)
    counts = histogram(flat, limits)
    sums = histogram(flat, limits, weights=image.flatten())
    reference = np.histogram(radius, bins)[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        profile = sums / counts
    return profile, counts, reference, 0.5 * (limits[1:] + limits[:-1])
