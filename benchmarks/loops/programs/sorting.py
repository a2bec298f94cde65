"""Sorting and searching by loops."""

import numpy as np

from benchmarks.loops.registry import loops, rng


def _numbers(n):
    return (rng().integers(0, 1_000_000, n),)


@loops(_numbers, 150, 1_500, written=(0,))
def insertion_sort(a):
    for i in range(1, len(a)):
        x = a[i]
        j = i - 1
        while j >= 0 and a[j] > x:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = x


@loops(lambda n: (rng().random(n),), 500, 10_000, written=(0,))
def shell_sort(a):
    n = len(a)
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap >= 1:
        for i in range(gap, n):
            x = a[i]
            j = i
            while j >= gap and a[j - gap] > x:
                a[j] = a[j - gap]
                j -= gap
            a[j] = x
        gap //= 3


@loops(_numbers, 500, 10_000, written=(0,))
def heap_sort(a):
    n = len(a)
    start, end = n // 2, n
    while end > 1:
        if start > 0:
            start -= 1
        else:
            end -= 1
            a[0], a[end] = a[end], a[0]
        root = start
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and a[child] < a[child + 1]:
                child += 1
            if a[root] >= a[child]:
                break
            a[root], a[child] = a[child], a[root]
            root = child


@loops(lambda n: (rng().random(n),), 500, 20_000)
def merge_sort(x):
    n = len(x)
    a = x.copy()
    b = np.empty(n)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            mid = min(low + width, n)
            high = min(low + 2 * width, n)
            i, j = low, mid
            for k in range(low, high):
                if i < mid and (j >= high or a[i] <= a[j]):
                    b[k] = a[i]
                    i += 1
                else:
                    b[k] = a[j]
                    j += 1
        a, b = b, a
        width *= 2
    return a


@loops(_numbers, 1_000, 50_000)
def radix_sort(x):
    a = x.copy()
    b = np.empty_like(a)
    for digit in range(3):
        shift = 8 * digit
        starts = np.zeros(257, dtype=np.int64)
        for v in a:
            starts[((v >> shift) & 255) + 1] += 1
        for i in range(256):
            starts[i + 1] += starts[i]
        for v in a:
            d = (v >> shift) & 255
            b[starts[d]] = v
            starts[d] += 1
        a, b = b, a
    return a


@loops(lambda n: (np.sort(rng().random(n)), rng(1).random(n)), 1_000, 50_000)
def binary_search(table, wanted):
    found = np.empty(len(wanted), dtype=np.int64)
    for i in range(len(wanted)):
        low, high = 0, len(table)
        while low < high:
            mid = (low + high) // 2
            if table[mid] < wanted[i]:
                low = mid + 1
            else:
                high = mid
        found[i] = low
    return found


@loops(lambda n: (rng().random(n), n // 3), 1_000, 100_000, written=(0,))
def quick_select(a, k):
    low, high = 0, len(a) - 1
    while low < high:
        pivot = a[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while a[i] < pivot:
                i += 1
            while a[j] > pivot:
                j -= 1
            if i <= j:
                a[i], a[j] = a[j], a[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return a[k]
