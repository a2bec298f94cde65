"""Batch normalisation, forward and backward, with running averages kept in place."""

import numpy as np

KIND = "array"
SMALL = 3
MEDIUM = 80


def initialize(n):
    rng = np.random.default_rng(46)
    x = rng.standard_normal((8, n, n, 6)) * 2 + 1
    return x, rng.standard_normal(x.shape), rng.random(6), rng.random(6), np.zeros(6), np.ones(6)


def program(x, upstream, gamma, beta, running_mean, running_var):
    axes = (0, 1, 2)
    count = x[..., 0].size
    mean = np.mean(x, axis=axes, keepdims=True)
    deviation = np.std(x, axis=axes, keepdims=True)
    normal = (x - mean) / np.sqrt(deviation**2 + 1e-5)
    out = gamma * normal + beta
    running_mean *= 0.9
    running_mean += 0.1 * mean.ravel()
    running_var[:] = 0.9 * running_var + 0.1 * np.squeeze(deviation) ** 2
    grad_gamma = (upstream * normal).sum(axis=axes)
    grad_beta = np.einsum("bijc->c", upstream)
    grad_x = gamma / np.sqrt(deviation**2 + 1e-5) * (upstream - grad_beta / count - normal * grad_gamma / count)
    return out, grad_x, grad_gamma, grad_beta
