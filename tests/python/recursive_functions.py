"""Functions that call themselves, or each other."""

import numpy as np


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def quicksort(a):
    if len(a) <= 1:
        return
    pivot = a[len(a) // 2]
    i, j = 0, len(a) - 1
    while i <= j:
        while a[i] < pivot:
            i += 1
        while a[j] > pivot:
            j -= 1
        if i <= j:
            a[i], a[j] = a[j], a[i]
            i += 1
            j -= 1
    quicksort(a[: j + 1])
    quicksort(a[i:])


def merge_sorted(a):
    n = len(a)
    if n < 2:
        return a.copy()
    left, right = merge_sorted(a[: n // 2]), merge_sorted(a[n // 2 :])
    out = np.empty(n, a.dtype)
    i = j = 0
    for k in range(n):
        if j >= len(right) or (i < len(left) and left[i] <= right[j]):
            out[k] = left[i]
            i += 1
        else:
            out[k] = right[j]
            j += 1
    return out


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


def parity(a):
    count = 0
    for i in range(len(a)):
        if is_even(abs(int(a[i]))):
            count += 1
    return count


def mixed(n):
    """An int or a float."""
    if n <= 0:
        return 0
    if n % 3 == 0:
        return mixed(n - 1) + 0.5
    return mixed(n - 2)


def hanoi(n):
    moves = np.zeros(1, np.int64)

    def move(k, source, target, other):
        if k > 0:
            move(k - 1, source, other, target)
            moves[0] += source * target
            move(k - 1, other, target, source)

    move(n, 1, 2, 3)
    return moves


def flood(image, i, j):
    if i < 0 or j < 0 or i >= image.shape[0] or j >= image.shape[1] or image[i, j] != 0:
        return 0
    image[i, j] = 2
    return 1 + flood(image, i + 1, j) + flood(image, i - 1, j) + flood(image, i, j + 1) + flood(image, i, j - 1)


def raises_deep(a, n):
    if n == 0:
        return a[len(a)]
    a[0] += 1.0
    return raises_deep(a, n - 1)


def endless(n):
    return endless(n + 1) + 1


def overflows(n):
    return 1 if n == 0 else 7 * overflows(n - 1)


def pairs(n):
    if n == 0:
        return 0, 1.0
    k, x = pairs(n - 1)
    return k + n, x / 2


def halves(a):
    """A view of its argument."""
    return a if len(a) < 3 else halves(a[: len(a) // 2])
