"""Black-Scholes prices and the normal distribution by a rational approximation."""

import numpy as np

KIND = "array"
SMALL = 50
MEDIUM = 210000


def initialize(n):
    rng = np.random.default_rng(66)
    return rng.uniform(10, 50, n), rng.uniform(10, 50, n), rng.uniform(1, 2, n), 0.1, 0.2


def normal(x):
    k = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    poly = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) * poly
    return np.where(x > 0, 1.0 - tail, tail)


def program(price, strike, time, rate, volatility):
    root = volatility * np.sqrt(time)
    d1 = (np.log(price / strike) + (rate + 0.5 * volatility**2) * time) / root
    d2 = d1 - root
    discounted = strike * np.exp(-rate * time)
    call = price * normal(d1) - discounted * normal(d2)
    put = call - price + discounted
    return call, put
