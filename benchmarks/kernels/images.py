"""Neighbourhoods of an image by slices: dilation, local maxima in four dimensions, GrowCut segmentation."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.kernels.registry import ND, Inputs, program, side, uniform

WINDOW = 7
RADIUS = 3


def picture(n: int) -> Inputs:
    s = side(n)
    return (uniform(max(s * 3 // 4, WINDOW), max(s * 4 // 3, WINDOW)),)


def numba_dilation(numba: Any, jit: Any) -> Any:
    @jit
    def f(x: ND) -> ND:
        h, w = x.shape
        out = numpy.empty((h - WINDOW + 1, w - WINDOW + 1))
        for i in numba.prange(h - WINDOW + 1):
            row = x[i].copy()
            for k in range(1, WINDOW):
                for j in range(w):
                    row[j] = max(row[j], x[i + k, j])
            for j in range(w - WINDOW + 1):
                top = row[j]
                for k in range(1, WINDOW):
                    top = max(top, row[j + k])
                out[i, j] = top
        return out

    return f


@program(
    picture,
    786_432,
    numba=numba_dilation,
    c=lambda lib, x: lib(
        "dilation", *x.shape, WINDOW, x, out=lib.empty((x.shape[0] - WINDOW + 1, x.shape[1] - WINDOW + 1))
    ),
)
def dilation(np: Any, x: Any) -> Any:
    for _ in range(2):  # along rows, then along columns
        n = len(x) - WINDOW + 1
        top = x[:n]
        for k in range(1, WINDOW):
            top = np.maximum(top, x[k : n + k])
        x = top.T
    return x


def block(n: int) -> Inputs:
    s = side(n, 4)
    return (uniform(s + s // 3, s + s // 3, s, max(s * 9 // 16, 4)),)


@program(
    block,
    216_000,
    c=lambda lib, x: lib("local_maxima", *x.shape, x, out=numpy.empty(tuple(n - 2 for n in x.shape), bool)),
)
def local_maxima(np: Any, x: Any) -> Any:
    inner = x[1:-1, 1:-1, 1:-1, 1:-1]
    top = x
    for axis in range(4):
        y = np.moveaxis(top, axis, 0)
        top = np.moveaxis(np.maximum(np.maximum(y[:-2], y[1:-1]), y[2:]), 0, axis)
    return inner == top


def marked(n: int) -> Inputs:
    s = side(n)
    strength = numpy.where(uniform(s, s, seed=1) < 0.1, 1.0, 0.0)
    label = numpy.where(strength > 0, numpy.where(uniform(s, s, seed=2) < 0.5, 1.0, 2.0), 0.0)
    return uniform(s, s), label, strength


def numba_growcut(numba: Any, jit: Any) -> Any:
    @jit
    def f(image: ND, label: ND, strength: ND) -> tuple[ND, ND]:
        h, w = image.shape
        new, best = label.copy(), strength.copy()
        for i in numba.prange(RADIUS, h - RADIUS):
            for j in range(RADIUS, w - RADIUS):
                for di in range(-RADIUS, RADIUS + 1):
                    for dj in range(-RADIUS, RADIUS + 1):
                        near = (1 - abs(image[i, j] - image[i + di, j + dj])) * strength[i + di, j + dj]
                        if near > best[i, j]:
                            best[i, j] = near
                            new[i, j] = label[i + di, j + dj]
        return new[RADIUS : h - RADIUS, RADIUS : w - RADIUS], best[RADIUS : h - RADIUS, RADIUS : w - RADIUS]

    return f


@program(
    marked,
    2_500,
    scales=(1_000, 100_000, 1_000_000),
    numba=numba_growcut,
    c=lambda lib, image, label, strength: lib(
        "growcut",
        *image.shape,
        RADIUS,
        image,
        label,
        strength,
        out=tuple(numpy.empty(tuple(s - 2 * RADIUS for s in image.shape)) for _ in "ls"),
    ),
)
def growcut(np: Any, image: Any, label: Any, strength: Any) -> Any:
    h, w = image.shape
    inner = slice(RADIUS, h - RADIUS), slice(RADIUS, w - RADIUS)
    new, best = label[inner], strength[inner]
    for di in range(2 * RADIUS + 1):
        for dj in range(2 * RADIUS + 1):
            there = slice(di, h - 2 * RADIUS + di), slice(dj, w - 2 * RADIUS + dj)
            near = (1 - np.abs(image[inner] - image[there])) * strength[there]
            wins = near > best
            best, new = np.where(wins, near, best), np.where(wins, label[there], new)
    return new, best
