"""Functions with dicts, sets, lists of tuples, and what users write beside them."""

import numpy as np

WEIGHTS = (0.25, 0.5, 0.125)


def counted(a):
    counts = {}
    for x in a:
        if x in counts:
            counts[x] += 1
        else:
            counts[x] = 1
    best = -1
    for k in counts:
        if counts[k] > best:
            best = counts[k]
    return best, len(counts), counts


def accumulated(a):
    sums = {}
    for i in range(len(a)):
        sums[i % 3] = sums.get(i % 3, 0) + a[i]
    total = 0
    for k, v in sums.items():
        total += k * v
    return total, sums.get(7), sums


def grid_of_keys(n):
    found = {}
    for i in range(n):
        for j in range(n):
            found[i, j % 2] = (i * j, i * 0.5)
    s = 0.0
    for (i, j), (k, x) in found.items():
        s += i + 2 * j + 3 * k + x
    return s, found


def missing(a, n):
    known = {1: 2.0, 3: 4.0}
    for i in range(n):
        a[i] = known[int(a[i])]
    return known


def made_anew(n):
    total = 0
    for i in range(n):
        seen = {}
        for j in range(i):
            seen[j % 4] = j
        for v in seen.values():
            total += v
        total += 100 * len(seen)
    return total


def emptied(n):
    left = {}
    out = 0
    for i in range(n):
        left[i * 7] = i
        if i % 3 == 2 and i % 5 != 0:
            del left[i * 7 - 7]
        if i % 5 == 4:
            out += left.pop(i * 7) + left.pop(1, -1)
    order = [k for k in left]
    out += left.setdefault(-5, 3) + left.setdefault(-5, 4)
    left.clear()
    left[2] = out
    return order, left


def grows_in_its_loop(n):
    d = {0: 1}
    for k in d:
        if k < n:
            d[k + 1] = 1
    return len(d)


def members(a):
    seen = set()
    twice = {-1.0}
    for x in a:
        if x in seen:
            twice.add(float(x))
        seen.add(x)
    seen.discard(a[0])
    return len(seen), twice, {int(y) % 4 for y in a}


def not_a_number(a):
    seen = set()
    for x in a:
        seen.add(x)
    return len(seen)


def pairs(n):
    out = []
    for i in range(n):
        for j in range(i):
            if (i + j) % 3 == 0:
                out.append((i, j * 0.5))
    s = 0.0
    for k, v in out:
        s += k * v
    out[0] = (7, 1.5)
    return s, out, out[-1], out.pop()


def search(grid):
    n, m = grid.shape
    steps = -np.ones((n, m), dtype=np.int64)
    queue = [(0, 0)]
    steps[0, 0] = 0
    head = 0
    while head < len(queue):
        i, j = queue[head]
        head += 1
        for di, dj in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            a, b = i + di, j + dj
            if 0 <= a < n and 0 <= b < m and grid[a, b] < 9 and steps[a, b] < 0:
                steps[a, b] = steps[i, j] + 1
                queue.append((a, b))
    return steps


def small_things(a, mode, m):
    s = 0.0
    for i, x in enumerate(a, 1):
        s += i * x + WEIGHTS[i % 3 - 1]
        if mode in ("sum", "all"):
            s += pow(3, i + 5, m)
    for i, x in enumerate((2.0, 3.0), start=len(a)):
        s += i * x
    return s


def quotients(a, n, m):
    a[0] = 1.0
    for i in range(4):
        a[i] = (n - i) / m
    return n / m, a


def beside_its_slice(a):
    whole = a[:]
    other = a
    for i in range(len(a)):
        a[i] += 1
    return whole, other, a.T


def empty_at_first(n):
    d, x, full = {}, [], {7: 8, 9: 1}
    held = (d, n, x)
    for i in range(2):
        n += i
    other = full
    if n > 3:
        other = d

    def note(k):
        d[k] = 3
        x.append(k)
        return 0

    first = x[note(n)] + d[note(n + 1) + n]
    return first, len(held[0]), held[0][n], n in held[0], held[2][0], other


def default_that_puts(n):
    d = {}

    def note(k):
        d[k] = k * 2
        return k

    for i in range(2):
        n += i
    return d.get(n, note(n)), note(n + 1) in d, d, note(n + 2)


def left_after_a_change(a, gone, more):
    d = {1: 2, 3: 4, 5: 6}
    for k in d:
        a[k] = 9.0
        if k == gone:
            del d[k]
        if k == more:
            d[8] = 9
            break
    for k, v in d.items():
        a[0] += k * v
    return d


def window(n):
    d = {}
    for i in range(n):
        d[i] = i
        if i >= 3:
            del d[i - 3]
        if i % 9 == 8:
            d[-1] = d.pop(-1, 0) + d[i - 1]
    return d


def merged(a):
    d, e = {}, {}
    for i in range(len(a)):
        d[i % 4] = a[i]
        e[i * 2] = a[i] + i
    f = d.copy()
    d.update(e)
    d.update(d)
    f[1] = a[0]
    g = {}
    g.update(f)
    g.update({})
    return d, e, f, g, len(d)


def last_entries(a):
    d = {}
    s = 0
    for i in range(len(a)):
        d[i % 5] = a[i]
        if i % 3 == 2:
            k, v = d.popitem()
            s = s * 3 + k + v
        if i == 4:
            del d[0]
    return d, s


def last_of_none(a):
    d = {1: 2}
    for i in range(len(a)):
        a[i] = 0
        d.popitem()
    return d


def equal_dicts(a):
    d, e = {}, {}
    found = []
    for i in range(len(a)):
        d[i % 3] = int(a[i])
        e[2 - i % 3] = int(a[len(a) - 1 - i])
        found.append((d == e, d != e, d == d, d == {}))
    g = d.copy()
    found.append((d == g, g != e, g == g))
    g[9] = 1
    found.append((d == g, g != d, len(g) == len(d)))
    return found


def most_frequent(a):
    d = {}
    for x in a:
        d[int(x)] = d.get(int(x), 0) + 1
    return max(d, key=d.get), min(d, key=d.get), len(set(a)), len({1} if len(a) else set())


def by_pairs(a):
    d = {}
    for i in range(len(a)):
        d[i % 2, i % 3] = a[i]
    best = max(d, key=d.get)
    return best, d[best], min(d, key=d.get)
