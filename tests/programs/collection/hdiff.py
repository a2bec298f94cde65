"""Horizontal diffusion of a weather model with a flux limiter."""

import numpy as np

KIND = "array"
SMALL = 10
MEDIUM = 160


def initialize(n):
    rng = np.random.default_rng(6)
    return rng.random((n + 4, n + 4, 20)), np.zeros((n, n, 20)), rng.random((n, n, 20))


def program(field, out, coefficient):
    rows, columns = out.shape[0], out.shape[1]
    lap = 4.0 * field[1 : rows + 3, 1 : columns + 3, :] - (
        field[2 : rows + 4, 1 : columns + 3, :]
        + field[0 : rows + 2, 1 : columns + 3, :]
        + field[1 : rows + 3, 2 : columns + 4, :]
        + field[1 : rows + 3, 0 : columns + 2, :]
    )
    step = lap[1:, 1 : columns + 1, :] - lap[:-1, 1 : columns + 1, :]
    slope = field[2 : rows + 3, 2 : columns + 2, :] - field[1 : rows + 2, 2 : columns + 2, :]
    flux_x = np.where(step * slope > 0, 0, step)
    step = lap[1 : rows + 1, 1:, :] - lap[1 : rows + 1, :-1, :]
    slope = field[2 : rows + 2, 2 : columns + 3, :] - field[2 : rows + 2, 1 : columns + 2, :]
    flux_y = np.where(step * slope > 0, 0, step)
    out[:] = field[2:-2, 2:-2, :] - coefficient * (
        flux_x[1:, :, :] - flux_x[:-1, :, :] + flux_y[:, 1:, :] - flux_y[:, :-1, :]
    )
