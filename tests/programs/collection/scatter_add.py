"""Charge deposited on a grid by np.add.at and gathered back by fancy indexing."""

import numpy as np

KIND = "array"
SMALL = 30
MEDIUM = 520000


def initialize(n):
    rng = np.random.default_rng(56)
    return rng.random(n) * 63.0, rng.standard_normal(n), np.zeros(64)


def program(position, charge, grid):
    left = position.astype(np.int64)
    weight = position - left
    np.add.at(grid, left, charge * (1 - weight))
    np.add.at(grid, left + 1, charge * weight)
    field = np.zeros_like(grid)
    field[1:-1] = (grid[2:] - grid[:-2]) / 2
    force = charge * (field[left] * (1 - weight) + field.take(left + 1) * weight)
    top = np.zeros(8, dtype=np.int64)
    np.maximum.at(top, left % 8, left)
    np.subtract.at(top, np.array([0, 0, 1]), 1)
    return force, top
