"""Local binary patterns of a uint8 image with shifts, and their histogram."""

import numpy as np

KIND = "array"
SMALL = 12
MEDIUM = 1100


def initialize(n):
    return (np.random.default_rng(57).integers(0, 256, (n, n), dtype=np.uint8),)


def program(image):
    centre = image[1:-1, 1:-1]
    code = np.zeros(centre.shape, dtype=np.uint8)
    h, w = image.shape
    offsets = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]
    for bit, (dy, dx) in enumerate(offsets):
        around = image[dy : h - 2 + dy, dx : w - 2 + dx]
        code |= (around >= centre).astype(np.uint8) << bit
    histogram = np.bincount(code.ravel(), minlength=256)
    return code, histogram, (code & 1).sum(), code ^ 0xFF
