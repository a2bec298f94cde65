"""atax, bicg, gesummv, mvt and a chain of three matrix products, with multi_dot beside it."""

import numpy as np

KIND = "array"
SMALL = 8
MEDIUM = 460


def initialize(n):
    rng = np.random.default_rng(77)
    return *(rng.random((n, n)) for _ in range(3)), rng.random(n), rng.random(n), 1.3, 0.7


def program(a, b, c, x, y, alpha, beta):
    atax = (a @ x) @ a
    bicg = y @ a, a @ x
    gesummv = alpha * a @ x + beta * b @ x
    x += a @ y
    y += x @ a
    three = (a @ b) @ (b @ c)
    c *= beta
    c += alpha * np.linalg.multi_dot([a, b, np.ones((b.shape[1], 3))])[:, 1:2]
    return atax, bicg, gesummv, three
