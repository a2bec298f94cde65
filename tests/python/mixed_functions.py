"""Functions with lists and dicts of several types of numbers: Python's beside NumPy's, integers beside floats."""

import heapq

import numpy as np


def reached(starts, others):
    seen = np.zeros(len(starts) - 1, dtype=bool)
    stack = [0]
    order = []
    while stack:
        u = stack.pop()
        if seen[u]:
            continue
        seen[u] = True
        order.append(u)
        for k in range(starts[u], starts[u + 1]):
            if not seen[others[k]]:
                stack.append(others[k])
    return order


def next_greater(a):
    stack = []
    out = [-1] * len(a)
    for i in range(len(a)):
        while stack and stack[-1][0] < a[i]:
            _, j = stack.pop()
            out[j] = i
        stack.append((a[i], i))
    return out


def rising(a):
    stack = [0.0]
    s = 0
    for x in a:
        while stack and stack[-1] > x:
            stack.pop()
            s += 1
        stack.append(x)
    return stack, s


def best_sums(a):
    n = len(a)
    best = [0] * (n + 1)
    for i in range(1, n + 1):
        best[i] = max(best[i - 1], best[i - 1] + a[i - 1])
    return best, sum(best), max(best), min(best), len(best)


def updated(a):
    t = [0] * 3
    for i in range(len(a)):
        t[i % 3] += a[i]
    t[0] -= 1
    return t


def chosen(a):
    t = [0] * 3
    s = 0.0
    for i in range(len(a)):
        t[i % 3] = a[i] if i % 2 else t[i % 3]
        s += t[i % 3] if i > 2 else 1
        u = t[i % 3] if i < 1 else 2.5
    return t, s, u


def as_an_array(a):
    t = [0.0]
    for x in a:
        t.append(x)
    return np.array(t), np.sum(t)


def distances(w):
    n = len(w)
    far = [float("inf")] * n
    far[0] = 0.0
    heap = [(0, 0)]
    while heap:
        d, u = heapq.heappop(heap)
        if d > far[u]:
            continue
        for v in range(n):
            way = d + w[u, v]
            if way < far[v]:
                far[v] = way
                heapq.heappush(heap, (way, v))
    return far, heap


def in_order(a):
    t = [2.0, 5]
    for x in a:
        t.append(x)
    t.sort()
    t.reverse()
    t.insert(1, 3.5)
    return t, t.index(5), t.count(2.0), 2 in t, sorted(t)


def three_types(a):
    t = []
    for i in range(len(a)):
        if i % 3 == 0:
            t.append(a[i])
        elif i % 3 == 1:
            t.append(i)
        else:
            t.append(0.5)
    s = 0
    for x in t:
        s = s * 2 + x
    return t, s, t[-1]


def divided(a):
    t = [0.0] * 2
    t[1] = a[0] * 0
    s = 0.0
    for i in range(2):
        s += 1.0 / t[1 - i]  # by NumPy's zero, then by Python's
    return s


def one_of_them(a, k):
    t = [1, a[0]]
    for i in range(2):
        t.append(i)
    return t[k]


def as_subscripts(a):
    t = [0, 1]
    t.append(a.astype(int)[1])
    s = 0.0
    for i in range(3):
        s += a[t[t[0]]] + t[t[i]]
    return s


def by_an_inner_function(a):
    t = [0]

    def put(x):
        t.append(x)

    for x in a:
        put(x)
    return t


def of_a_choice(a):
    return [x if x > 0 else 0 for x in a]


def while_it_grows(n):
    t = [0]
    s = 0
    i = 0
    while i < len(t) and t[i] < n:
        s += t[i]
        t.append(np.int64(t[i] + 1))
        i += 1
    return t, s


def grown(n):
    t = [0]
    for i in range(n):
        if i % 2:
            t.append(i)
        else:
            t.append(np.float32(i))
    t.pop(3)
    t.remove(8)
    return t


def wraps(a):
    t = [1 << 62]
    t.append(a[0])
    return t[0] * 4 if a[0] > 1 else t[1] * 4


def added_by_key(a):
    found = {}
    for x in a:
        found[int(x)] = found.get(int(x), 0) + x
    return found, sum(found.values()), len(found), max(found.values()) if len(a) else 0


def updated_by_key(a):
    found = {0: 0, 1: 0.5}
    for i in range(len(a)):
        found[i % 2] += a[i]
    return found


def bump(items):
    items.append(7)
    return len(items) % 2


def subscripts_once(a):
    t = [0, 0.5]
    calls = [1]
    for i in range(len(a)):
        t[bump(calls)] += a[i]
    return t, calls


def by_branches(a):
    found = {}
    for i in range(len(a)):
        if a[i] > 1:
            found[i] = a[i]
        else:
            found[i] = 0
    s = 0
    for k, v in found.items():
        s += k * v
    for v in found.values():
        s -= v
    return found, s


def defaults_by_key(a):
    found = {}
    for x in a:
        found.setdefault(int(x), 0)
        found[int(x)] += x
    v = 0
    if 3 in found:
        v = found.pop(3)
    w = found.pop(99, 1.5)
    return found, v, w


def no_such_key(a):
    found = {1: 0}
    for x in a:
        found[2] = x
    return found[7]


def remembered(n):
    found = {0: 0.5, 1: 1}
    for i in range(2, n):
        found[i] = found[i - 1] + found[i - 2]
    return found


def all_of_it(a):
    q = [0, 0.5]
    for i in range(len(a)):
        q.append(a[i])
    return q, q[-1], min(q), max(q), sum(q)


def extremes(a):
    q = [0, 0.5]
    count = 0
    for i in range(len(a)):
        q.append(a[i])
        if min(q) + max(q) < sum(q) and q[-1] * q[0] <= max(q):
            count += 1
    return count


def first_failure(a, k):
    q = [0, 0.5]
    for _ in range(1):
        q.append(a[0])
    n = len(a)
    return 1 / q[k % 2], q[n + k], n // (k - 2)


def taken_in_order(a):
    q = [0, 0.5]
    for i in range(len(a)):
        q.append(a[i] if i % 2 else i)
    x, y = q.pop(), q.pop()
    a[0], a[len(q) % 2] = q.pop(), q[-1]
    x, y = y, x
    q[0], q[1], z = x, q[0], q[1]
    return q, x, y, z, a


def drawn_in_order(a, seed):
    rng = np.random.default_rng(seed)
    q = [0, 0.5]
    for _ in range(1):
        q.append(a[0])
    x, y = q[rng.integers(3)], q[rng.integers(3)]
    return rng.random() * x, q[rng.integers(3)], rng.random() - y, max(q), rng.random(), min(q)


def not_both(a, k):
    q = [0, 0.5]
    for _ in range(1):
        q.append(a[0])
    x = q[k]
    y = x + (q[7] if k > 5 else 1) + (k and q[k])
    return (x > 0 and q[k + 3] > 0) or max(q) > y, x, y


def put_in(a):
    q = [0]
    for i in range(len(a)):
        q.insert(0, i if i % 2 else a[i])
        q.extend((a[i], i, q[0]))
        q += [q[-1], min(q)]
    return q


def many_items(a):
    q = []
    for k in range(len(a)):
        q.append((k, k + 1, k * 2.0, a[k], k, -a[k], k, k, k * 0.5, k, k, k, k, k, k, k, k, True))
    return q


def pairs_of_several_types(a):
    pairs = [(i, i if i % 3 else a[i]) for i in range(len(a))]
    total, out, two = 0, [], [0, 0]
    for i, x in pairs:
        total += i * x
        out.append(x)
    for k, (_, x) in enumerate(pairs):
        total += k * x
    for two[0], two[1] in pairs:
        total -= two[1]
    return total, out, [i + x for i, x in pairs], two
