"""Functions that take parts of lists, and that unpack tuples in calls."""

import numpy as np


def parts(a, lower, upper, step):
    found = []
    for x in a:
        found.append(int(x) * 2)
    return found[lower:upper:step], found[lower:], found[:upper], found[::step], found[:]


def backwards(parents, k):
    path = []
    while k >= 0:
        path.append(k)
        k = int(parents[k])
    return path[::-1]


def a_copy_stays(a):
    found = [0, 1]
    for x in a:
        found.append(x)
    other = found[1:]
    other.append(7)
    found[1] = 5
    return found, other, len(found[2:1]), sum(found[1:3])


def of_tuples(a):
    found = []
    for i in range(len(a)):
        found.append((i, a[i]))
    s = 0.0
    for i, x in found[1:-1]:
        s += i * x
    return s, found[-2:]


def over_all(A):
    s = 0.0
    for i, j in np.ndindex(*A.shape):
        s += A[i, j] * i
    return s


def _mixed(x, y, z):
    return x + 2 * y + 3 * z


def unpacked(a, t):
    s = 0.0
    for i in range(len(a)):
        s += _mixed(a[i], *t) + _mixed(*t, z=a[i]) + max(*t, 1)
    return s, _mixed(*(1, 2), 3), _mixed(1, *[2, 3])
