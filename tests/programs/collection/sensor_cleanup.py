"""A table of sensors with gaps: means without NaN, gaps filled, outliers replaced, bins, running products."""

import numpy as np

KIND = "array"
SMALL = 20
MEDIUM = 13000


def initialize(n):
    rng = np.random.default_rng(97)
    table = rng.normal(20.0, 2.0, (n, 6))
    table[rng.random(table.shape) < 0.08] = np.nan
    table[rng.random(table.shape) < 0.02] = 99.0
    return table, np.array([16.0, 18.0, 20.0, 22.0])


def fill_forward(column):
    index = np.where(np.isnan(column), 0, np.arange(len(column)))
    np.maximum.accumulate(index, out=index)
    return column[index]


def program(table, limits):
    gaps = np.isnan(table)
    mean, total = np.nanmean(table, axis=0), np.nansum(table)
    filled = np.apply_along_axis(fill_forward, 0, table)
    np.copyto(filled, np.broadcast_to(mean, filled.shape), where=np.isnan(filled))
    centre = np.median(filled, axis=0)
    spread = np.median(np.abs(filled - centre), axis=0)
    outlier = np.abs(filled - centre) > 6 * spread
    np.putmask(table, gaps | outlier, centre[None, :].repeat(len(table), axis=0))
    levels = np.digitize(table, limits)
    growth = np.cumprod(1 + (table[:10] - 20) / 100, axis=0)
    counts = [np.count_nonzero(levels == k) for k in range(len(limits) + 1)]
    first = gaps.argmax(axis=0).tolist()
    return total.item(), mean, levels.astype(np.int8), growth, counts, first, np.nanmax(filled, axis=1)
