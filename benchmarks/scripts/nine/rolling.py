"""Rolling statistics of prices: mean, deviation, bands, momentum, drawdown."""

import sys

import numpy as np

SIZES = {"small": 10_000, "large": 3_000_000}
RTOL = 1e-3  # differences of sums of millions have few digits


def rolling_sums(x, window):
    sums = np.cumsum(np.concatenate([np.zeros(1), x]))
    return sums[window:] - sums[:-window]


def main(size):
    rng = np.random.default_rng(5)
    prices = 100.0 * np.exp(np.cumsum(rng.normal(0.0, 0.001, size)))
    window = 50
    level = prices.mean()
    centred = prices - level  # sums of squares of large numbers would cancel
    mean = rolling_sums(centred, window) / window
    variance = np.maximum(rolling_sums(centred**2, window) / window - mean**2, 0.0)
    deviation = np.sqrt(variance)
    now = prices[window - 1 :]
    upper, lower = level + mean + 2.0 * deviation, level + mean - 2.0 * deviation
    outside = (now > upper) | (now < lower)
    returns = np.diff(prices) / prices[:-1]
    momentum = prices[window:] / prices[:-window] - 1.0
    peaks = np.maximum.accumulate(prices)
    drawdown = (prices - peaks) / peaks
    return {
        "mean": mean,
        "deviation": deviation,
        "outside": outside.mean(),
        "worst": drawdown.min(),
        "sharpe": returns.mean() / returns.std() * np.sqrt(252.0),
        "momentum": np.percentile(momentum, [5.0, 50.0, 95.0]),
    }


if __name__ == "__main__":
    found = main(SIZES[sys.argv[1]])
    print(
        f"outside the bands {found['outside']:.6f}, worst drawdown {found['worst']:.6f}, sharpe {found['sharpe']:.6f}"
    )
    print("momentum", " ".join(f"{value:.6f}" for value in found["momentum"]))
