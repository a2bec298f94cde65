"""Viterbi's most likely path in logarithms, with the way back by elements."""

import numpy as np

KIND = "element"
SMALL = 12
MEDIUM = 1500


def initialize(n):
    rng = np.random.default_rng(69)
    states = 24
    transition = rng.random((states, states))
    emission = rng.random((states, 6))
    transition /= transition.sum(axis=1, keepdims=True)
    emission /= emission.sum(axis=1, keepdims=True)
    return rng.integers(0, 6, n), transition, emission


def program(observed, transition, emission):
    n, states = len(observed), transition.shape[0]
    log_t, log_e = np.log(transition), np.log(emission)
    score = np.full(states, -np.log(states)) + log_e[:, observed[0]]
    back = np.zeros((n, states), dtype=np.intp)
    for t in range(1, n):
        options = score[:, np.newaxis] + log_t
        back[t] = options.argmax(axis=0)
        score = options[back[t], np.arange(states)] + log_e[:, observed[t]]
    path = np.empty(n, dtype=int)
    path[-1] = score.argmax()
    for t in range(n - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path, float(np.max(score))
