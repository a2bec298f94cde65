"""Functions with what users take from Python: methods of lists, heaps, bisection, products, complex functions."""

import bisect
import cmath
import heapq
import itertools

import numpy as np


def from_the_front(n):
    queue = [0]
    s = 0
    while queue:
        k = queue.pop(0)
        s = s * 3 + k
        s %= 1000003
        if k < n:
            queue.append(k + 1)
        if k % 2 == 0 and k < n:
            queue.insert(0, k + 2)
    return s


def methods(n):
    a = [3, 1, 2]
    a.extend([5, 1])
    a.insert(-1, 7)
    a.insert(100, 9)
    a.insert(-100, 8)
    c = a.count(1) * 100 + a.index(7)
    a.remove(1)
    a.reverse()
    b = a.copy()
    b.append(4)
    a += [6, 7]
    x = a.pop(1)
    y = a.pop(-2)
    for i in range(n):
        c += i
    return a, b, c, x, y, 5 in a, 55 in a, 55 not in a


def lists_of_tuples(n):
    a = [(1, 2.5)]
    for i in range(n):
        a.insert(0, (i, i * 0.5))
    a.reverse()
    return a, a.index((1, 0.5)), a.count((0, 0.0)), (7, 0.0) in a, a.pop(1)


def failures(n):
    a = [1, 2]
    for _ in range(1):
        a.append(3)
    if n == 1:
        a.remove(7)
    if n == 2:
        return a.index(7)
    if n == 3:
        a.pop(5)
    if n == 4:
        a.clear()
        return a.pop(0)
    if n == 5:
        a.clear()
        return heapq.heappop(a)
    return bisect.bisect_left(a, 2, n - 7)


def in_order(a):
    items = []
    for x in a:
        items.append(x)
    down = sorted(items, reverse=True)
    items.sort()
    return items, down, sorted(a)


def tuples_in_order(n):
    items = []
    for i in range(n):
        items.append((i * 7 % 5, -i * 0.5))
    items.sort()
    return items, sorted(items, reverse=True)


def shortest_ways(n):
    far = [1e9] * n
    far[0] = 0.0
    heap = [(0.0, 0)]
    while heap:
        d, u = heapq.heappop(heap)
        if d > far[u]:
            continue
        for v in range(n):
            way = d + ((u * 7 + v * 3) % 11 + 1)
            if v != u and way < far[v]:
                far[v] = way
                heapq.heappush(heap, (way, v))
    return far


def heaps(n):
    heap = [(i * 37) % 101 for i in range(n)]
    heapq.heapify(heap)
    out = [heapq.heapreplace(heap, 5)]
    out.append(heapq.heappushpop(heap, 50))
    out.append(heapq.heappushpop(heap, -50))
    for _ in range(n // 2):
        out.append(heapq.heappop(heap))
    return heap, out


def tuples(n):
    c = 0
    for i in range(n):
        for j in range(n):
            if (i, j) < (j, i):
                c += 1
            if (i, j, 1) <= (i, j):
                c += 10
            if (i, 2.5) >= (j, i):
                c += 100
            if (i, j) == (j, i):
                c += 1000
            if ((i, j), 1) != ((j, i), 1):
                c += 7
            if (i,) > (j, i) or (i, j) == (i,):
                c += 50000
    return c


def bisected(a):
    ordered = np.sort(a)
    s = 0
    found = []
    for x in a:
        s = s * 3 + bisect.bisect_left(ordered, x) + bisect.bisect(ordered, x) * 7
        bisect.insort(found, x)
    bisect.insort_left(found, a[0])
    return s, found, bisect.bisect_right(found, 2.0, 1, 3)


def products(n):
    s = 0
    for i, j in itertools.product(range(n), range(1, n, 2)):
        if j == 3:
            continue
        s = s * 3 + i * j
    for t in itertools.product(range(2), range(2), range(2)):
        s += t[0] * 4 + t[2]
    return s, t


def pairs(a):
    s = 0.0
    c = 0
    for i, j in itertools.combinations(range(len(a)), 2):
        s += a[i] * a[j]
        c = c * 3 + i
    for x, y, z in itertools.combinations(a, 3):  # of what the items were at the start
        s += x * y * z
        a[0] += 1
    for i, j in itertools.combinations(range(2, 6), 2):
        c += i * j
    return s, c, a


def places(x):
    s = 0.0
    for i, j in np.ndindex(x.shape):
        s = s * 0.5 + x[i, j]
    for i, j in np.ndindex(3, 4):
        s += i * j
    for at in np.ndindex(x.shape[0]):
        s += at[0]
    for (i, j), v in np.ndenumerate(x):
        s = s * 0.5 + v * i - j
    return s


def no_places(n):
    s = 0
    for _ in np.ndindex(n):
        s += 1
    return s


def left_early(n):
    s = 0
    for i, j in itertools.product(range(n), range(n)):
        if i + j > 3:
            break
        s += i * j
    return s


def complex_functions(z):
    s = 0j
    for v in z:
        s += cmath.exp(v) + cmath.sqrt(v)
    return s, cmath.phase(s), abs(s)


def methods_of_ufuncs(a):
    out = np.zeros(5)
    for _ in range(3):
        np.add.at(out, np.array([0, 1, 1]), 1.0)
        a = np.maximum.accumulate(a)
        b = np.add.reduceat(a, np.array([0, 2]))
    return out, a, b


def says(a):
    for i in range(3):
        print(f"step {i}: {a[i]:.3f}", "x", i)
    print("%d of %s" % (3, a[0]))  # noqa: UP031
    return a[0]
