"""Functions of Python's library and NumPy's, in the Python that is compiled. In: numbers, arrays, lists. Out: the same.

Calls of them are read as if the user had written these (calls.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def _message(f: Any, *args: Any) -> str:
    """What this Python says where a function fails."""
    try:
        f(*args)
    except ValueError as error:
        return str(error)
    raise AssertionError


NEGATIVE_ROOT = _message(math.isqrt, -1)
NEGATIVE_FACTORIAL = _message(math.factorial, -1)
ZERO_DIVISOR = "division by zero"
EXACT = 1 << 53  # integers up to this are floats
ENOUGH = 1 << 54  # of a quotient: more bits than a float has, and one to say that others follow
LEAST = -(1 << 63)
NOTHING_LEAST = _message(min, ())
NO_MODULUS = _message(pow, 1, 1, 0)
NOTHING_GREATEST = _message(max, ())
NEGATIVE_LENGTH = _message(np.bincount, [0], None, -1)
NEGATIVE_KEY = _message(np.bincount, [-1])
OTHER_LENGTH = _message(np.bincount, [0], [1.0, 2.0])


def gcd(a, b):  # type: ignore[no-untyped-def]
    a = abs(a)
    b = abs(b)
    while b:
        a, b = b, a % b
    return a


def lcm(a, b):  # type: ignore[no-untyped-def]
    if a == 0 or b == 0:
        return 0
    x = abs(a)
    y = abs(b)
    while y:
        x, y = y, x % y
    return abs(a) // x * abs(b)


def isqrt(n):  # type: ignore[no-untyped-def]
    if n < 0:
        raise ValueError(NEGATIVE_ROOT)
    root = int(math.sqrt(n))
    while root > 0 and root > n // root:
        root -= 1
    while root + 1 <= n // (root + 1):
        root += 1
    return root


def factorial(n):  # type: ignore[no-untyped-def]
    if n < 0:
        raise ValueError(NEGATIVE_FACTORIAL)
    made = 1
    for k in range(2, n + 1):
        made *= k
    return made


def isclose(a, b, *, rel_tol=1e-09, abs_tol=0.0):  # type: ignore[no-untyped-def]
    if rel_tol < 0 or abs_tol < 0:
        raise ValueError("tolerances must be non-negative")
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    apart = abs(b - a)
    return apart <= abs(rel_tol * b) or apart <= abs(rel_tol * a) or apart <= abs_tol


def log_of_base(x, base):  # type: ignore[no-untyped-def]
    return math.log(x) / math.log(base)


def quotient(a, b):  # type: ignore[no-untyped-def]
    """a / b of integers that may be no floats, rounded once: by 55 bits of it or more, and whether others follow."""
    if b == 0:
        raise ZeroDivisionError(ZERO_DIVISOR)
    if -EXACT <= a <= EXACT and -EXACT <= b <= EXACT:
        return float(a) / float(b)
    if a == 0:
        return 0.0 if b > 0 else -0.0
    scale = 1.0 if (a > 0) == (b > 0) else -1.0
    if a == LEAST:
        a //= 2
        scale *= 2.0
    if b == LEAST:
        b //= 2
        scale *= 0.5
    rest = abs(a)
    by = abs(b)
    made = rest // by
    rest %= by
    while made < ENOUGH:
        made *= 2
        scale *= 0.5
        if rest >= by - rest:
            rest -= by - rest
            made += 1
        else:
            rest += rest
    if rest > 0:
        made |= 1
    return float(made) * scale


def least(items):  # type: ignore[no-untyped-def]
    if len(items) == 0:
        raise ValueError(NOTHING_LEAST)
    best = items[0]
    for i in range(1, len(items)):
        if items[i] < best:
            best = items[i]
    return best


def greatest(items):  # type: ignore[no-untyped-def]
    if len(items) == 0:
        raise ValueError(NOTHING_GREATEST)
    best = items[0]
    for i in range(1, len(items)):
        if items[i] > best:
            best = items[i]
    return best


def total(items, start=0):  # type: ignore[no-untyped-def]
    for i in range(len(items)):
        start = start + items[i]
    return start


def some(items):  # type: ignore[no-untyped-def]
    return any(x for x in items)


def every(items):  # type: ignore[no-untyped-def]
    return all(x for x in items)


def bincount(x, minlength=0):  # type: ignore[no-untyped-def]
    if minlength < 0:
        raise ValueError(NEGATIVE_LENGTH)
    n = minlength
    if n > 0:  # mostly no key is beyond it: one way through x instead of three
        made = np.zeros(n, np.int64)
        for k in range(len(x)):
            i = int(x[k])
            if i < 0 or i >= n:
                break
            made[i] += 1
        else:
            return made
    if len(x) > 0:
        if x.min() < 0:
            raise ValueError(NEGATIVE_KEY)
        n = max(n, int(x.max()) + 1)
    counts = np.zeros(n, np.int64)
    for k in range(len(x)):
        counts[int(x[k])] += 1
    return counts


def weighted_bincount(x, weights, minlength=0):  # type: ignore[no-untyped-def]
    if minlength < 0:
        raise ValueError(NEGATIVE_LENGTH)
    if len(weights) != len(x):
        raise ValueError(OTHER_LENGTH)
    n = minlength
    if n > 0:
        made = np.zeros(n)
        for k in range(len(x)):
            i = int(x[k])
            if i < 0 or i >= n:
                break
            made[i] += weights[k]
        else:
            return made
    if len(x) > 0:
        if x.min() < 0:
            raise ValueError(NEGATIVE_KEY)
        n = max(n, int(x.max()) + 1)
    sums = np.zeros(n)
    for k in range(len(x)):
        sums[int(x[k])] += weights[k]
    return sums


MATH: dict[str, Any] = {"gcd": gcd, "lcm": lcm, "isqrt": isqrt, "factorial": factorial, "isclose": isclose}
BUILTINS: dict[str, Any] = {"min": least, "max": greatest, "sum": total, "any": some, "all": every}


def power_of_rest(base, exponent, modulus):  # type: ignore[no-untyped-def]
    """pow(base, exponent, modulus)"""
    if modulus == 0:
        raise ValueError(NO_MODULUS)
    made = 1 % modulus
    base %= modulus
    while exponent > 0:
        if exponent & 1:
            made = made * base % modulus
        exponent >>= 1
        if exponent:
            base = base * base % modulus
    return made
