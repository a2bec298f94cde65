"""Functions that ask what values are, and functions in which the type of a number decides what follows."""

import numpy as np


def needs_floats(a):
    if a.dtype != np.float64:
        raise TypeError("need float64")
    s = 0.0
    for x in a:
        s += x
    return s


def scaled(image):
    scale = 255 if image.dtype == np.uint8 else 1
    s = 0.0
    for x in image:
        s += x / scale
    return s


def by_dtype(a):
    found = []
    for _ in range(2):
        if a.dtype == "float64":
            found.append(1)
        if a.dtype in (np.float32, np.float64):
            found.append(2)
        if a.dtype == np.dtype("float32") or np.float64 == a.dtype:
            found.append(3)
        if a.dtype == float:
            found.append(4)
        if a.dtype not in (np.int64, "int8"):
            found.append(5)
        if a.dtype.kind == "f" and a.dtype.itemsize > 4:
            found.append(6)
        if np.issubdtype(a.dtype, np.floating):
            found.append(7)
    return found


def by_class(a, n):
    found = []
    for x in a:
        if isinstance(x, np.integer):
            found.append(1)
        if isinstance(x, float):
            found.append(2)
    if type(a) == np.ndarray and isinstance(a, np.ndarray) and hasattr(a, "shape"):  # noqa: E721
        found.append(3)
    if isinstance(n, int):
        found.append(4)
    if isinstance(n, int | float) and not hasattr(n, "shape"):
        found.append(5)
    if isinstance((a, n), tuple) and isinstance(found, list):
        found.append(6)
    return found


def chosen_into_dict(a):
    found = {}
    for i in range(4):
        found[i] = i if i % 2 else a[i]
    return found


def chosen_into_list(a):
    found = [0, 0, 0, 0]
    for i in range(4):
        found[i] = min(a[i], 1)
    return found


def _at_least_two(x):
    return x if x > 1 else 0


def returned_into_list(a):
    found = [0, 0, 0, 0]
    for i in range(4):
        found[i] = _at_least_two(a[i])
    return found


def chosen_divisors(a):
    found = {}
    for i in range(4):
        found[i] = max(2, a[i])
    r = 0.0
    for k in found:
        r += 2 / (found[k] - found[k] // 1 * 1)
    return r


def _inverse(v):
    return 1 / v


def chosen_argument(a, out):
    for i in range(4):
        out[i] = _inverse(a[i] if a[i] > 1 else 0)


def _inverse_of_choice(x):
    return 1 / (x if x > 1 else 0)


def chosen_within(a, out):
    for i in range(4):
        out[i] = _inverse_of_choice(a[i])


def chosen_twice(a, out):
    for i in range(4):
        out[i] = (a[i] if a[i] > 1 else 0) if 1 / (a[i] if a[i] > 1 else 1) > 0 else 2


def sums_of_parts(x, start):
    found = []
    for i in range(start, 3):
        part = x[start:i]
        found.append(sum(part) / len(part))
    return found


def sum_of_part(x, k):
    for _ in range(1):
        pass
    return sum(x[:k]), sum(x[:k], 5), sum(x * 2)


def sums_into_elements(x, out):
    for i in range(3):
        out[i] = sum(x[:i])


def fibonacci(n):
    known = {}
    known[0] = 0
    known[1] = 1
    for k in range(2, n + 1):
        known[k] = known[k - 1] + known[k - 2]
    return known[n]


def _fill(a, n):
    if n == 0:
        return 1
    a[n % 3] = n
    return _fill(a, n - 1) * 3


def powers_beside_a_new_array(n):
    t = np.zeros(3)
    return _fill(t, n), t


def powers_beside_an_argument(n, t):
    return _fill(t, n), t


def life(g):
    n, m = g.shape
    new = np.zeros_like(g)
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            c = 0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    if a or b:
                        c += g[i + a, j + b]
            new[i, j] = c == 3 or (g[i, j] and c == 2)
    return new


def values_or_five(a):
    found = []
    for x in a:
        t = x or 5
        found.append(t)
    return found


def first_or_other(a, k):
    for x in a:
        y = x > 1 and k
        if y:
            return y
    return k or a[0]


def added_tests(a):
    s = 0
    for x in a:
        s += (x > 1) and (s < 10)
    return s


def chained_tests(a, b):
    n = 0
    for i in range(len(a)):
        ok = (a[i] > 0 and b[i]) or i == 2
        n += ok
    return n, a[0] and 1 / b[0]


def fails_in_the_second(a, k):
    found = []
    for i in range(4):
        found.append((i < 3 and a[i + k]) or -1)
    return found
