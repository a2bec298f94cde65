"""Functions in which it shows how new arrays lie in memory."""

import numpy as np


def writes_through_a_turned_copy(x):
    y = x.T * 2
    flat = y.T.ravel()
    for i in range(len(flat)):
        flat[i] = i
    return y


def asks_for_an_order(x):
    y = np.zeros((len(x), len(x) + 1), order="F")
    flat = y.T.reshape(-1)
    for i in range(len(flat)):
        flat[i] = i
    return y


def like_its_argument(x):
    y = np.zeros_like(x)
    flat = y.reshape(-1)
    for i in range(len(flat)):
        flat[i] = i + 1
    return y


def of_its_argument(x):
    y = np.sqrt(x) + 1
    flat = y.ravel()
    for i in range(len(flat)):
        flat[i] = i + 1
    return y


def by_a_choice(x):
    y = np.where(x > 0.5, x, 0)
    if x[0, 0] < 100:
        z = y
    else:
        z = x.copy()
    flat = z.reshape(-1)
    for i in range(len(flat)):
        flat[i] = i + 1
    return y, z


def in_an_order_of_its_own(x):
    y = x[:, :2] * 1
    out = 0.0
    for v in y.ravel(order="K"):
        out = 2 * out + v
    return out


def copied_first(x):
    y = (x.T * 2).copy()
    flat = y.reshape(-1)
    for i in range(len(flat)):
        flat[i] = i
    return y


def copied_for_a_line(x):
    y = np.ascontiguousarray(x.T)
    z = np.ascontiguousarray(x[::2, 0])
    for i in range(2):
        y[i, 0] = -5
        z[0] = -7
    return y, z


def called_with_it(x):
    def lines(y, n):
        flat = y.ravel()
        flat[0] = n
        return 0 if n == 0 else lines(y, n - 1) + 1

    y = x * 2
    for i in range(2):
        y[0, i] = i
    return y, lines(y, 3)
