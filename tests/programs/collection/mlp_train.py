"""A two-layer perceptron trained by back-propagation on lists of weights."""

import numpy as np

KIND = "array"
SMALL = 10
MEDIUM = 3100


def initialize(n):
    rng = np.random.default_rng(45)
    weights = [rng.standard_normal((a, b)) * np.sqrt(2.0 / a) for a, b in ((12, 20), (20, 16), (16, 4))]
    biases = [np.zeros(w.shape[1]) for w in weights]
    return rng.standard_normal((n, 12)), rng.integers(0, 4, size=n), weights, biases


def forward(x, weights, biases):
    layers = [x]
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        layers.append(np.tanh(layers[-1] @ w + b))
    return layers, layers[-1] @ weights[-1] + biases[-1]


def program(x, labels, weights, biases):
    rows = np.arange(len(labels))
    losses = np.zeros(8)
    for step in range(8):
        layers, logits = forward(x, weights, biases)
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        losses[step] = -np.log(p[rows, labels]).mean()
        delta = p
        delta[rows, labels] -= 1
        delta /= len(labels)
        for k in range(len(weights) - 1, -1, -1):
            grad_w, grad_b = layers[k].T @ delta, delta.sum(axis=0)
            if k:
                delta = (delta @ weights[k].T) * (1 - layers[k] ** 2)
            weights[k] -= 0.2 * grad_w
            biases[k] -= 0.2 * grad_b
    return losses
