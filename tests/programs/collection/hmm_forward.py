"""Forward and backward probabilities of a hidden Markov model, scaled at each step."""

import numpy as np

KIND = "element"
SMALL = 12
MEDIUM = 1300


def initialize(n):
    rng = np.random.default_rng(70)
    transition = rng.dirichlet(np.ones(8), 8)
    emission = rng.dirichlet(np.ones(5), size=8)
    return rng.integers(0, 5, n), transition, emission


def program(observed, transition, emission):
    n, states = observed.size, len(transition)
    alpha, beta, scale = np.zeros((n, states)), np.ones((n, states)), np.zeros(n)
    alpha[0] = emission[:, observed[0]] / states
    scale[0] = alpha[0].sum()
    alpha[0] /= scale[0]
    for t in range(1, n):
        np.dot(alpha[t - 1], transition, out=alpha[t])
        alpha[t] *= emission[:, observed[t]]
        scale[t] = np.sum(alpha[t])
        alpha[t] /= scale[t]
    for t in range(n - 1)[::-1]:
        beta[t] = transition @ (emission[:, observed[t + 1]] * beta[t + 1]) / scale[t + 1]
    gamma = alpha * beta
    return np.log(scale).sum(), gamma / gamma.sum(axis=1)[:, None]
