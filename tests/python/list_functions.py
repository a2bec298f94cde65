"""Functions with lists."""

import numpy as np


def primes(n):
    found = []
    for k in range(2, n):
        prime = True
        for p in found:
            if p * p > k:
                break
            if k % p == 0:
                prime = False
                break
        if prime:
            found.append(k)
    return found


def stack(a):
    waiting = [0]
    order = []
    seen = np.zeros(len(a), np.bool_)
    while waiting:
        i = waiting.pop()
        if seen[i]:
            continue
        seen[i] = True
        order.append(i)
        for j in range(len(a)):
            if a[i, j] and not seen[j]:
                waiting.append(j)
    return order, len(waiting)


def items(a, k):
    x = [1.5, 2.5]
    for i in range(len(a)):
        x.append(float(a[i]))
        x[-1] += 1.0
        x[0] = x[1] - i
    y = x
    y.append(-1.0)
    return x[k], len(x), np.array(x), np.sum(x), x


def comprehensions(a):
    squares = [v * v for v in a if v > 0]
    pairs = [i * j for i in range(3) for j in range(i)]
    s = 0
    for q in pairs:
        s += q
    return squares, s, len(pairs), np.array([k + 0.5 for k in range(4)])


def filled(n):
    table = [0] * n
    for i in range(n):
        table[i] = i * i
    total = 0
    for i, v in enumerate(table):
        total += i * v
    return total, table, [] if n > 2 else None


def pops_too_much(a):
    x = []
    for i in range(len(a)):
        x.append(a[i])
    for _ in range(9):
        a[0] = x.pop()
    return a


def filled_by_another(n):
    out = []
    for i in range(n):
        put(out, i)
    return out


def put(out, i):
    if i % 2:
        out.append(i)


def made_again(n):
    best = 0
    for i in range(n):
        row = []
        for j in range(i):
            row.append(j * 1.0)
        best = max(best, len(row))
    return best


def beside_each_other(n):
    now = [0]
    for _ in range(n):
        after = []
        for v in now:
            after.append(v + 1)
            after.append(v)
        now = after
    return len(now)


def sorted_rows(n):
    rows = []
    for i in range(n):
        rows.append([n - i])
    rows.sort()
    return rows


def mixed(n):
    x = [1]
    for _ in range(n):
        x.append(1.5)
    return x


def from_others(a, n):
    down = list(range(n, 0, -2))
    down.append(n)
    copied = list(a)
    copied[0] += 1
    pair = list((n, 7))
    total = 0
    for v in list(k * k for k in range(3)):
        total += v
    return np.array(down), copied, copied[0] - a[0], pair[1], total
