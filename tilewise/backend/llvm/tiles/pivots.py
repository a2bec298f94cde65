"""Squared deviations in one pass. In: an input, then sums about pivots (guesses of means). Out: sums about the means.

Deviations from any number p give those from the mean: with their sum s and that of their squares q, q - s*s/n. As long
as p is within two standard deviations of the mean, fewer than three bits are lost. So p is the median of a few numbers,
and where it was not good enough (or sums are not finite) tiles take their squares about their own means (merging.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tilewise.backend.llvm.tiles.merging import Spread, rows_of
from tilewise.records import dataclass

ND = np.ndarray[Any, Any]

SAMPLES, LEAST_SAMPLES = 15, 3  # for each mean
SAMPLED = 4096  # numbers for all means, unless that were fewer than the least
FAR = 4  # times the variance: the most that the square of a pivot's distance from the mean may be


@dataclass(frozen=True)
class Pivot:
    """What is summed about pivots: positions of the sums, of the squares and of what both are of; its reduced axes."""

    totals: tuple[int, ...]  # all the same
    squares: int
    rest: int | None  # of the plain deviations from the means, if they are asked for
    value: int
    axes: tuple[int, ...]
    number: int  # of terms of each sum
    shape: tuple[int, ...]  # of the means


def guesses(x: ND, pivot: Pivot) -> ND:
    """A pivot for each mean: the median of a few of its numbers."""
    axes, kept = pivot.axes, x.size // pivot.number
    count = max(LEAST_SAMPLES, min(SAMPLES, SAMPLED // max(1, kept)) | 1)
    picked = x
    for axis in sorted(axes, key=lambda a: -x.shape[a]):
        n = x.shape[axis]
        picked = picked.take(_spaced(n, min(n, count)), axis)
        count = LEAST_SAMPLES
    rows = picked.transpose(*axes, *(a for a in range(x.ndim) if a not in axes)).reshape(-1, kept)
    middle: ND = np.sort(rows, axis=0)[len(rows) // 2]
    return np.ascontiguousarray(middle).reshape(pivot.shape)  # as code reads it


@lru_cache(maxsize=256)
def _spaced(length: int, count: int) -> ND:
    """Positions of an axis, as far apart as can be."""
    return np.linspace(0, length - 1, count, dtype=np.int64)


def about_means(pivot: Pivot, guess: ND, squares: ND, rests: ND) -> Spread | None:
    """Sums, and squared deviations from the means, flat; None if a pivot is too far off.

    In: for each tile, the sums of its squared and plain deviations from the pivots.
    """
    near = guess.ravel().astype(np.float64, copy=False)
    with np.errstate(all="ignore"):
        rest, square = (np.add.reduce(rows_of(x), -1, np.float64) for x in (rests, squares))
        shift = rest * (rest / pivot.number)
        spread = square - shift
        total = (pivot.number * near + rest).astype(guess.dtype, copy=False)
        good = np.isfinite(square) & np.isfinite(total) & (shift <= FAR * spread)
        sure = good.all() or (good | (np.isnan(square) & np.isfinite(near))).all()  # a NaN in the data: both are NaN
        return Spread(total, spread, near, rest, pivot.number) if sure else None
