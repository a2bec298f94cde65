"""Functions that give arrays other shapes and orders of axes."""

from __future__ import annotations

import numpy as np


def reshaped_in_a_loop(y, a, b, n):
    s = 0.0
    for i in range(n):
        v = np.reshape(y, (a, 2, b))
        s += v[i % a, 1, b - 1]
        v[0, 0, 0] += 1  # shows y
        w = v.reshape(-1, b)
        s += w[a, 0] * w.shape[0]
        w = w.reshape(a * 2 * b)
        w[3] += 2
        z = np.reshape(w[::2] * 2.0, (b, -1))
        s += z[1, 0]
        z[0] = 7  # shows nothing else
        q = np.reshape(v[:, 1], (-1,))
        q[0] = 100  # a copy: v[:, 1] has gaps
        s += q.size + q[1]
    return s, w, z, q, v


def shapes_in_turn(y, shapes):
    s = 0.0
    for k in range(len(shapes)):
        s += np.reshape(y, (shapes[k, 0], shapes[k, 1]))[-1, 0]
    return s


def axes_in_other_orders(a, n):
    s = 0.0
    for i in range(n):
        t = np.transpose(a, axes=(1, 0, 2))
        t[0, 1, 0] += i
        u = a.transpose(2, 0, 1)
        v = np.transpose(a, (-1, 0, 1))
        w = np.transpose(a * 2.0, (0, 2, 1))
        x = np.reshape(t, (a.size,))
        s += u[1, 0, 1] + t[2, 1, 1] + w[0, 1, 2] + x[4]
    return s, t, u, v, w, x, a.transpose((1, 2, 0)), a.transpose()


def chained_shapes(y, n):
    for i in range(n):
        y = np.reshape(np.reshape(y, (2, -1)), (-1, 2))
        y[0, 0] += i
    return y


def no_such_axes(a, n):
    for _ in range(n):
        a = a.transpose(0, 0, 1)
    return a


def without_axes(a):
    first = a[..., 0]
    s = a[0]
    for i in range(len(a)):
        a[i] = a[i] + 7  # `first` shows it
        s += a[..., i] + a[i, ...]
        a[..., i] += 1
    return a, first, first + 1, s, (a * 2)[..., 1], first.shape
