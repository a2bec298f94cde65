"""Conway's Life on a board of booleans with a dead border."""

import numpy as np

KIND = "array"
SMALL = 14
MEDIUM = 360


def initialize(n):
    board = np.random.default_rng(8).random((n, n)) < 0.3
    return board, 12


def neighbours(cells):
    c = cells.astype(np.uint8)
    total = np.zeros_like(c)
    total[1:-1, 1:-1] = (
        c[:-2, :-2] + c[:-2, 1:-1] + c[:-2, 2:] + c[1:-1, :-2] + c[1:-1, 2:] + c[2:, :-2] + c[2:, 1:-1] + c[2:, 2:]
    )
    return total


def program(board, generations):
    population = []
    for _ in range(generations):
        around = neighbours(board)
        birth = (around == 3) & ~board
        survive = ((around == 2) | (around == 3)) & board
        board[...] = False
        board[birth | survive] = True
        population.append(int(board.sum()))
    return population
