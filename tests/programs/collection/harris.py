"""Harris corners: gradients, box sums, response and the strongest points."""

import numpy as np

KIND = "array"
SMALL = 16
MEDIUM = 390


def initialize(n):
    i, j = np.indices((n, n))
    blocks = (i // 5 + j // 5) % 2
    return (blocks + 0.05 * np.random.default_rng(59).random((n, n)),)


def box(a):
    return sum(np.roll(np.roll(a, dy, 0), dx, 1) for dy in (-1, 0, 1) for dx in (-1, 0, 1))


def program(image):
    gy, gx = np.gradient(image)
    xx, xy, yy = box(gx * gx), box(gx * gy), box(gy * gy)
    response = xx * yy - xy**2 - 0.05 * (xx + yy) ** 2
    inner = response[1:-1, 1:-1]
    peak = np.ones(inner.shape, dtype=np.bool_)
    for part in (response[:-2, 1:-1], response[2:, 1:-1], response[1:-1, :-2], response[1:-1, 2:]):
        np.logical_and(peak, inner > part, out=peak)
    rows, columns = np.where(peak)
    strongest = np.argsort(inner[rows, columns])[::-1][:6]
    return response, np.column_stack((rows[strongest] + 1, columns[strongest] + 1))
