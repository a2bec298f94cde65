"""Moving averages by cumsum and by convolution, an exponential one by a loop."""

import numpy as np

KIND = "element"
SMALL = 40
MEDIUM = 31000


def initialize(n):
    series = np.random.default_rng(81).standard_normal(n).cumsum()
    series[n // 3] = np.nan
    return series, 7, 0.2


def program(series, window, alpha):
    missing = np.isnan(series)
    series[missing] = np.interp(np.flatnonzero(missing), np.flatnonzero(~missing), series[~missing])
    total = np.insert(np.cumsum(series), 0, 0.0)
    mean = (total[window:] - total[:-window]) / window
    same = np.convolve(series, np.ones(window) / window, mode="valid")
    smooth = np.empty_like(series)
    smooth[0] = series[0]
    for i in range(1, len(series)):
        smooth[i] = alpha * series[i] + (1 - alpha) * smooth[i - 1]
    return mean, np.allclose(mean, same), smooth, int(missing.sum())
