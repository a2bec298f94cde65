"""Convex hull by gift wrapping, the orientations of all points at once."""

import numpy as np

KIND = "array"
SMALL = 30
MEDIUM = 18000


def initialize(n):
    return (np.random.default_rng(64).standard_normal((n, 2)),)


def program(points):
    start = int(np.lexsort((points[:, 1], points[:, 0]))[0])
    hull = [start]
    current = start
    while True:
        d = points - points[current]
        candidate = 0 if current != 0 else 1
        while True:
            turn = d[candidate, 0] * d[:, 1] - d[candidate, 1] * d[:, 0]
            turn[[current, candidate]] = 0.0
            if not (turn < 0).any():
                break
            candidate = int(turn.argmin())
        if candidate == start or len(hull) > len(points):
            break
        hull.append(candidate)
        current = candidate
    corners = points[hull]
    x, y = corners.T
    area = 0.5 * np.abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))
    return np.array(hull), area
