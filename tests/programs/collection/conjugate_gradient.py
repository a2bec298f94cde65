"""Conjugate gradients, matrix-free on a grid and with a data dependent end."""

import numpy as np

KIND = "array"
SMALL = 10
MEDIUM = 210


def initialize(n):
    b = np.zeros((n, n))
    b[1:-1, 1:-1] = np.random.default_rng(23).random((n - 2, n - 2))
    return (b,)


def operator(x):
    y = 4.5 * x
    y[1:] -= x[:-1]
    y[:-1] -= x[1:]
    y[:, 1:] -= x[:, :-1]
    y[:, :-1] -= x[:, 1:]
    return y


def program(b):
    x = np.zeros_like(b)
    r = b - operator(x)
    p = r
    rr = np.vdot(r, r)
    history = [np.sqrt(rr)]
    while history[-1] > 1e-6 * history[0]:
        ap = operator(p)
        step = rr / np.vdot(p, ap)
        x += step * p
        r = r - step * ap
        rr, old = np.vdot(r, r), rr
        p = r + rr / old * p
        history.append(np.sqrt(rr))
    return x, len(history), np.array(history)
