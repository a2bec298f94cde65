"""Functions that call Python's own library: round, math, min and max of several, and messages of exceptions."""

import math

import numpy as np

TEXT = "a text from {outside}"


class OwnError(ValueError):
    """An exception of the user's."""


def rounded(x, a):
    near = 0.0
    for i in range(len(a)):
        near += round(x, 2) + round(a[i], 1)
        a[i] = np.round(a[i], 2) + round(x, 0) + round(i, 1)
    return near, round(x, 2), np.round(a, 1), a.round(2), np.around(a)


def rounded_by_python(x, digits):
    for _ in range(2):
        near = round(x, digits), round(x, -1), round(12345, -2)
    return near


def whole_numbers(a, b):
    total = 0
    for i in range(5):
        total += math.gcd(a + i, b) * math.lcm(a, i) + math.isqrt(abs(a) + i) + math.factorial(i) + math.comb(5, i)
    return total, math.isqrt(2**62 + a), math.gcd(np.int32(6), 4)


def angles(x, out):
    for i in range(len(x)):
        out[i, 0] = math.atan(x[i]) + math.exp(-abs(x[i])) + math.hypot(x[i], 1.0)
        out[i, 1] = math.sin(x[i])
        out[i, 2] = math.cos(x[i]) + math.tan(x[i])


def remainders(x, y, out):
    for i in range(len(x)):
        out[i, 0] = math.atan2(x[i], y) + math.pow(y, 2.0)
        out[i, 1] = math.fmod(x[i], y)


def complex_exponentials(z, out):
    for i in range(len(z)):
        e = np.exp(z[i])
        out[i, 0] = e.real
        out[i, 1] = e.imag


def negative_root(a, b):
    for i in range(3):
        a += math.isqrt(b - i)
    return a


def of_floats(x):
    total = 0.0
    for i in range(3):
        total += math.log(x + i + 1, 2) + math.exp2(x) + math.remainder(x, 3.0) + math.gamma(x + 1) + math.lgamma(x + 1)
        part, whole = math.modf(x + i)
        total += part + 2 * whole + math.ldexp(x, i) + math.isclose(x, i) * 100
    return total


def asserted(a, x):
    for i in range(len(a)):
        assert a[i] > 0, f"element {i} is {a[i]:.2f}, x is {x!r} or {a[i]}"
    return x


def asserted_otherwise(a, x):
    for i in range(len(a)):
        assert a[i] > 0, "at %d: %s" % (i, a[i]) + str(x)  # noqa: UP031
    return x


def raised(a, kind):
    for i in range(len(a)):
        a[i] += 1
        if a[i] < 0:
            if kind == 0:
                raise OwnError(f"bad {a[i]}", i)
            if kind == 1:
                raise ValueError(TEXT)
            if kind == 2:
                raise ValueError("x is {} of {}".format(a[i], i) + str(i))  # noqa: UP032
            if kind == 3:
                raise KeyError(i)
            raise OwnError
    return kind


def complex_powers(z):
    total = 0j
    for k in range(3):
        total += z**2 + z**3 + z**-2 + z**7 + z**0 + k
    return total


def complex_powers_of_numpy(z):
    total = z * 0
    for _ in range(3):
        total = total + z**2 + z**3 + z**4
    return total


def of_several(a, n):
    kept = []
    for i in range(n):
        kept.append(i * i - 3)
    for _ in range(2):
        least = min(a)
    some = min(x * x for x in a), max([x for x in a if x > 0])
    return least, max(a), sum(a, 0.5), some, any(kept), all(kept), sum(kept, 5)


def least_of_none(n):
    kept = []
    for i in range(n):
        kept.append(i)
    return min(kept)
