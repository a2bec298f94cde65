"""Filters and walks over images."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import loops, rng


def _image(n):
    return rng().random((n, n + n // 3))


def _bytes(n):
    return rng().integers(0, 256, (n, n + n // 3)).astype(np.uint8)


def box_blur_parallel(image, radius):
    h, w = image.shape
    out = np.empty((h, w))
    for i in prange(h):
        for j in range(w):
            s = 0.0
            count = 0
            for a in range(max(0, i - radius), min(h, i + radius + 1)):
                for b in range(max(0, j - radius), min(w, j + radius + 1)):
                    s += image[a, b]
                    count += 1
            out[i, j] = s / count
    return out


@loops(lambda n: (_image(n), 2), 40, 200, parallel=box_blur_parallel)
def box_blur(image, radius):
    h, w = image.shape
    out = np.empty((h, w))
    for i in range(h):
        for j in range(w):
            s = 0.0
            count = 0
            for a in range(max(0, i - radius), min(h, i + radius + 1)):
                for b in range(max(0, j - radius), min(w, j + radius + 1)):
                    s += image[a, b]
                    count += 1
            out[i, j] = s / count
    return out


def gaussian_blur_parallel(image, weights):
    h, w = image.shape
    r = len(weights) // 2
    rows = np.zeros((h, w))
    out = np.zeros((h, w))
    for i in prange(h):
        for j in range(r, w - r):
            s = 0.0
            for k in range(-r, r + 1):
                s += weights[k + r] * image[i, j + k]
            rows[i, j] = s
    for i in prange(r, h - r):
        for j in range(r, w - r):
            s = 0.0
            for k in range(-r, r + 1):
                s += weights[k + r] * rows[i + k, j]
            out[i, j] = s
    return out


@loops(
    lambda n: (_image(n), np.exp(-0.3 * np.arange(-4, 5) ** 2)),
    60,
    300,
    parallel=gaussian_blur_parallel,
    c=lambda lib, x, k: lib("gaussian_blur", *x.shape, len(k), x, k, out=np.zeros_like(x)),
)
def gaussian_blur(image, weights):
    h, w = image.shape
    r = len(weights) // 2
    rows = np.zeros((h, w))
    out = np.zeros((h, w))
    for i in range(h):
        for j in range(r, w - r):
            for k in range(-r, r + 1):
                rows[i, j] += weights[k + r] * image[i, j + k]
    for i in range(r, h - r):
        for j in range(r, w - r):
            for k in range(-r, r + 1):
                out[i, j] += weights[k + r] * rows[i + k, j]
    return out


def median_parallel(image):
    h, w = image.shape
    out = image.copy()
    for i in prange(1, h - 1):
        window = np.empty(9, dtype=image.dtype)
        for j in range(1, w - 1):
            for a in range(3):
                for b in range(3):
                    window[3 * a + b] = image[i - 1 + a, j - 1 + b]
            for k in range(1, 9):
                v = window[k]
                at = k - 1
                while at >= 0 and window[at] > v:
                    window[at + 1] = window[at]
                    at -= 1
                window[at + 1] = v
            out[i, j] = window[4]
    return out


@loops(lambda n: (_bytes(n),), 30, 150, parallel=median_parallel)
def median_3x3(image):
    h, w = image.shape
    out = image.copy()
    window = np.empty(9, dtype=image.dtype)
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            for a in range(3):
                for b in range(3):
                    window[3 * a + b] = image[i - 1 + a, j - 1 + b]
            for k in range(1, 9):
                v = window[k]
                at = k - 1
                while at >= 0 and window[at] > v:
                    window[at + 1] = window[at]
                    at -= 1
                window[at + 1] = v
            out[i, j] = window[4]
    return out


def sobel_parallel(x):
    h, w = x.shape
    out = np.zeros((h, w))
    for i in prange(1, h - 1):
        for j in range(1, w - 1):
            a = x[i - 1, j + 1] + 2.0 * x[i, j + 1] + x[i + 1, j + 1]
            a -= x[i - 1, j - 1] + 2.0 * x[i, j - 1] + x[i + 1, j - 1]
            b = x[i + 1, j - 1] + 2.0 * x[i + 1, j] + x[i + 1, j + 1]
            b -= x[i - 1, j - 1] + 2.0 * x[i - 1, j] + x[i - 1, j + 1]
            out[i, j] = np.sqrt(a * a + b * b)
    return out


@loops(lambda n: (_image(n),), 60, 400, parallel=sobel_parallel)
def sobel(x):
    h, w = x.shape
    out = np.zeros((h, w))
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            a = x[i - 1, j + 1] + 2.0 * x[i, j + 1] + x[i + 1, j + 1]
            a -= x[i - 1, j - 1] + 2.0 * x[i, j - 1] + x[i + 1, j - 1]
            b = x[i + 1, j - 1] + 2.0 * x[i + 1, j] + x[i + 1, j + 1]
            b -= x[i - 1, j - 1] + 2.0 * x[i - 1, j] + x[i - 1, j + 1]
            out[i, j] = np.sqrt(a * a + b * b)
    return out


def bilateral_parallel(image, radius, space, tone):
    h, w = image.shape
    out = np.zeros((h, w))
    for i in prange(radius, h - radius):
        for j in range(radius, w - radius):
            s = total = 0.0
            for a in range(-radius, radius + 1):
                for b in range(-radius, radius + 1):
                    v = image[i + a, j + b]
                    d = v - image[i, j]
                    weight = np.exp(-(a * a + b * b) * space - d * d * tone)
                    s += weight * v
                    total += weight
            out[i, j] = s / total
    return out


@loops(lambda n: (_image(n), 3, 0.1, 4.0), 24, 100, parallel=bilateral_parallel)
def bilateral(image, radius, space, tone):
    h, w = image.shape
    out = np.zeros((h, w))
    for i in range(radius, h - radius):
        for j in range(radius, w - radius):
            s = total = 0.0
            for a in range(-radius, radius + 1):
                for b in range(-radius, radius + 1):
                    v = image[i + a, j + b]
                    d = v - image[i, j]
                    weight = np.exp(-(a * a + b * b) * space - d * d * tone)
                    s += weight * v
                    total += weight
            out[i, j] = s / total
    return out


@loops(lambda n: (_bytes(n),), 60, 400)
def equalise(image):
    counts = np.zeros(256, dtype=np.int64)
    h, w = image.shape
    for i in range(h):
        for j in range(w):
            counts[image[i, j]] += 1
    table = np.zeros(256, dtype=np.uint8)
    below = 0
    for v in range(256):
        below += counts[v]
        table[v] = 255 * below // (h * w)
    out = np.empty_like(image)
    for i in range(h):
        for j in range(w):
            out[i, j] = table[image[i, j]]
    return out


@loops(lambda n: (rng().random((n, n)) < 0.6,), 40, 250)
def flood_labels(mask):
    h, w = mask.shape
    labels = np.zeros((h, w), dtype=np.int32)
    stack = np.empty((h * w, 2), dtype=np.int64)
    found = 0
    for i in range(h):
        for j in range(w):
            if not mask[i, j] or labels[i, j]:
                continue
            found += 1
            labels[i, j] = found
            stack[0] = i, j
            top = 1
            while top:
                top -= 1
                a, b = stack[top]
                for da, db in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                    y, x = a + da, b + db
                    if 0 <= y < h and 0 <= x < w and mask[y, x] and labels[y, x] == 0:
                        labels[y, x] = found
                        stack[top] = y, x
                        top += 1
    return found, labels


def resize_parallel(image, h, w):
    m, n = image.shape
    out = np.empty((h, w))
    for i in prange(h):
        y = i * (m - 1) / (h - 1)
        a = min(int(y), m - 2)
        fy = y - a
        for j in range(w):
            x = j * (n - 1) / (w - 1)
            b = min(int(x), n - 2)
            fx = x - b
            top = image[a, b] * (1.0 - fx) + image[a, b + 1] * fx
            low = image[a + 1, b] * (1.0 - fx) + image[a + 1, b + 1] * fx
            out[i, j] = top * (1.0 - fy) + low * fy
    return out


@loops(lambda n: (_image(n), n + n // 2, 2 * n), 40, 200, parallel=resize_parallel)
def bilinear_resize(image, h, w):
    m, n = image.shape
    out = np.empty((h, w))
    for i in range(h):
        y = i * (m - 1) / (h - 1)
        a = min(int(y), m - 2)
        fy = y - a
        for j in range(w):
            x = j * (n - 1) / (w - 1)
            b = min(int(x), n - 2)
            fx = x - b
            top = image[a, b] * (1.0 - fx) + image[a, b + 1] * fx
            low = image[a + 1, b] * (1.0 - fx) + image[a + 1, b + 1] * fx
            out[i, j] = top * (1.0 - fy) + low * fy
    return out


@loops(lambda n: (rng().random((n, n)) < 0.02,), 60, 300)
def distance_transform(mask):
    h, w = mask.shape
    d = np.where(mask, 0, h + w)
    for i in range(h):
        for j in range(w):
            if i > 0:
                d[i, j] = min(d[i, j], d[i - 1, j] + 1)
            if j > 0:
                d[i, j] = min(d[i, j], d[i, j - 1] + 1)
    for i in range(h - 1, -1, -1):
        for j in range(w - 1, -1, -1):
            if i < h - 1:
                d[i, j] = min(d[i, j], d[i + 1, j] + 1)
            if j < w - 1:
                d[i, j] = min(d[i, j], d[i, j + 1] + 1)
    return d
