"""Logistic regression by gradient descent with momentum."""

import numpy as np

KIND = "array"
SMALL = 40
MEDIUM = 15000


def initialize(n):
    rng = np.random.default_rng(29)
    x = rng.standard_normal((n, 12))
    truth = rng.standard_normal(12)
    y = (x @ truth + 0.3 * rng.standard_normal(n) > 0).astype(np.float64)
    return x, y, np.zeros(12)


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def program(x, y, weights):
    velocity = np.zeros_like(weights)
    losses = []
    for _ in range(40):
        p = sigmoid(x @ weights)
        gradient = x.T @ (p - y) / len(y)
        velocity *= 0.9
        velocity -= 0.5 * gradient
        weights += velocity
        losses.append(-np.mean(y * np.log(p + 1e-12) + (1 - y) * np.log1p(1e-12 - p)))
    accuracy = np.mean((sigmoid(x @ weights) > 0.5) == (y == 1))
    return np.asarray(losses), accuracy
