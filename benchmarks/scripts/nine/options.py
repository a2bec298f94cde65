"""Prices and Greeks of European options by Black and Scholes, and a simulation that checks them."""

import sys

import numpy as np

SIZES = {"small": 4_000, "large": 1_000_000}


def normal_cdf(x):
    """After Abramowitz and Stegun, 26.2.17."""
    k = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    series = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi) * series
    return np.where(x >= 0.0, 1.0 - tail, tail)


def main(size):
    rng = np.random.default_rng(2)
    spot = rng.uniform(10.0, 60.0, size)
    strike = rng.uniform(15.0, 55.0, size)
    years = rng.uniform(0.1, 2.0, size)
    rate, volatility = 0.03, 0.25
    root = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / root
    d2 = d1 - root
    discount = strike * np.exp(-rate * years)
    call = spot * normal_cdf(d1) - discount * normal_cdf(d2)
    put = call - spot + discount
    delta = normal_cdf(d1)
    gamma = np.exp(-0.5 * d1 * d1) / np.sqrt(2.0 * np.pi) / (spot * root)
    draws = rng.standard_normal(size)
    ends = 30.0 * np.exp((rate - 0.5 * volatility**2) * 1.0 + volatility * draws)
    simulated = np.exp(-rate) * np.maximum(ends - 32.0, 0.0).mean()
    return {
        "call": call,
        "put": put,
        "means": np.array([call.mean(), put.mean(), delta.mean(), gamma.mean()]),
        "simulated": simulated,
    }


if __name__ == "__main__":
    found = main(SIZES[sys.argv[1]])
    print("means of call, put, delta, gamma:", " ".join(f"{value:.6f}" for value in found["means"]))
    print(f"simulated {found['simulated']:.6f}")
