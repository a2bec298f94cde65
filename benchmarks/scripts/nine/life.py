"""The Game of Life on a torus."""

import sys

import numpy as np

SIZES = {"small": (64, 50), "large": (2_000, 25)}


def step(board):
    around = sum(
        np.roll(np.roll(board, down, axis=0), right, axis=1)
        for down in (-1, 0, 1)
        for right in (-1, 0, 1)
        if (down, right) != (0, 0)
    )
    return ((around == 3) | ((board == 1) & (around == 2))).astype(np.uint8)


def main(size):
    side, steps = size
    rng = np.random.default_rng(8)
    board = (rng.random((side, side)) < 0.3).astype(np.uint8)
    for _ in range(steps):
        board = step(board)
    return {"board": board, "alive": board.sum(), "busiest": board.sum(axis=1).max()}


if __name__ == "__main__":
    found = main(SIZES[sys.argv[1]])
    print(f"{found['alive']} cells alive, at most {found['busiest']} in a row")
