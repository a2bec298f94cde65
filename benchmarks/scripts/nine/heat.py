"""The heat equation on a plate with one hot edge, by explicit steps."""

import sys

import numpy as np

SIZES = {"small": (60, 100), "large": (1_200, 60)}


def main(size):
    side, steps = size
    plate = np.zeros((side, side))
    plate[0, :] = 100.0
    plate[side // 3 : side // 2, side // 3 : side // 2] = 50.0
    for _ in range(steps):
        middle = plate[1:-1, 1:-1]
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        new = plate.copy()
        new[1:-1, 1:-1] = middle + 0.2 * (around - 4.0 * middle)
        plate = new
    return {"plate": plate, "mean": plate.mean(), "hottest": plate[1:-1].max()}


if __name__ == "__main__":
    found = main(SIZES[sys.argv[1]])
    print(f"mean {found['mean']:.6f}, hottest inside {found['hottest']:.6f}")
