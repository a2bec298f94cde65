"""A Kalman filter of constant velocity over noisy positions."""

import numpy as np

KIND = "element"
SMALL = 12
MEDIUM = 550


def initialize(n):
    rng = np.random.default_rng(68)
    truth = np.cumsum(rng.standard_normal((n, 2)) * 0.1 + 0.5, axis=0)
    return truth + rng.standard_normal((n, 2)) * 0.3, 1.0


def program(measured, dt):
    f = np.eye(4)
    f[0, 2] = f[1, 3] = dt
    h = np.zeros((2, 4))
    h[[0, 1], [0, 1]] = 1
    q, r = 0.01 * np.eye(4), 0.09 * np.eye(2)
    x, p = np.zeros(4), np.eye(4)
    track = np.empty((len(measured), 4))
    for t, z in enumerate(measured):
        x = f @ x
        p = f @ p @ f.T + q
        s = h @ p @ h.T + r
        gain = p @ h.T @ np.linalg.inv(s)
        x = x + gain @ (z - h @ x)
        p = (np.eye(4) - gain @ h) @ p
        track[t] = x
    return track, p, np.linalg.det(p)
