"""Functions with lists of lists, and with lists that are made in loops and change places: who sees what is written."""

import heapq

import numpy as np


def longest_common(a, b):
    n, m = len(a), len(b)
    dp = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n):
        for j in range(m):
            if a[i] == b[j]:
                dp[i + 1][j + 1] = dp[i][j] + 1
            else:
                dp[i + 1][j + 1] = max(dp[i][j + 1], dp[i + 1][j])
    return dp[n][m], dp


def two_rows(a, b):
    previous = [0] * (len(b) + 1)
    for i in range(len(a)):
        current = [0] * (len(b) + 1)
        for j in range(len(b)):
            current[j + 1] = previous[j] + 1 if a[i] == b[j] else max(previous[j + 1], current[j])
        previous = current
    return previous[-1], previous


def places_change(a, b):
    now, then = [0] * 5, [1] * 5
    for i in range(len(a)):
        for j in range(1, 5):
            then[j] = now[j - 1] + i
        now, then = then, now
        if i == 2:
            now.append(i)
    return now, then, len(now), len(then)


def kept_by_two_names(a, b):
    row = [0, 1]
    rows = []
    last = row
    for i in range(len(a)):
        rows.append(row)
        if i % 2:
            last = row
            row = [i, i + 1]
        row[0] += i
    last[1] = 99
    return rows, row, last


def same_row_twice(a, b):
    m = [[0] * 3] * 4
    for i in range(3):
        m[i][i] = i + 1
    k = [[0] * len(a) for _ in range(2)]
    r = k[1]
    r.append(7)
    k[0] = r
    r[0] = 5
    x = m[0]
    x[1] += 10
    return m, k, r, m[0], k[0]


def repeated_rows(a, b):
    m = [[0] * len(a)] * len(b)
    w = [[1], [2]] * 2
    for i in range(len(a)):
        m[0][i] += i
        w[i % 4][0] += 1
    return m, w, m[0], w[1]


def two_names_of_a_display(a, b):
    x = y = []
    u = v = [0] * 3
    for i in range(len(a)):
        x.append(i)
        u[i % 3] += 1
    return x, y, u, v


def of_two_rows(a, b):
    g = [[1, 2], [3]]
    s = 0
    for i in range(len(a)):
        x = g[i % 2]
        y = g[0]
        y.append(i)
        x.append(-i)
        s += len(x) * len(y)
    return g, s, x, y


def reached(a, b):
    n = len(a)
    others = [[] for _ in range(n)]
    for i in range(n):
        others[i].append((i * 3 + 1) % n)
        others[(i * 5 + 2) % n].append(i)
    seen = [False] * n
    seen[0] = True
    frontier = [0]
    levels = 0
    order = []
    while frontier:
        new = []
        for u in frontier:
            order.append(u)
            for v in others[u]:
                if not seen[v]:
                    seen[v] = True
                    new.append(v)
        frontier = new
        levels += 1
    return levels, order, others


def while_it_is_walked(a, b):
    g = [[1, 2], [3], []]
    s = 0
    for v in g[0]:
        if v < len(a):
            g[0].append(v + 3)
        elif v == len(a) + 1:
            g[1].append(v)
        s += v
    for v in g[1]:
        if len(g[1]) < 6:
            g[1].insert(0, v)
        if v == 3:
            break
    else:
        s = -1
    for _ in g[2]:
        s += 1000
    return s, g


def of_numpys(a, b):
    n = len(a)
    dp = [[0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            dp[i][j] = a[i] * j + (dp[i - 1][j] if i else 0)
    return dp, [sum(row) for row in dp], [max(row) for row in dp], len(dp)


def by_key(a, b):
    d = {}
    for i in range(len(a)):
        k = i % 3
        if k not in d:
            d[k] = []
        d[k].append(i)
        d.setdefault(k + 1, []).append(-i)
    s = 0
    for k in d:
        for v in d[k]:
            s = s * 2 + v
    for k, row in d.items():
        s += k * len(row)
    return d, s


def rows_change_places(a, b):
    g = [[i, i + 1, i * 2] for i in range(4)]
    for i in range(3):
        g[i], g[3 - i] = g[3 - i], g[i]
        for row in g:
            row[0] += 1
        g.append([9])
    t = [row[:] for row in g]
    t[0][0] = 100
    u = [list(row) for row in g if len(row) > 1]
    u[0].pop()
    return g, t, u, g[0] == t[0], g[1] == t[1], g[2] != g[2], g[0] == []


def cubes(a, b):
    c = [[[0] * 2 for _ in range(3)] for _ in range(4)]
    for i in range(4):
        c[i][i % 3][1] = i
    e = c[1]
    e[2][0] = 8
    c[3] = e
    return c, e, len(c[0]), c[1][2]


def with_numbers_beside(a, b):
    todo = [(0, [0])]
    found = []
    while todo:
        at, path = todo.pop()
        if at >= len(a):
            found.append(path)
            continue
        for step in (2, 3):
            todo.append((at + step, path + [at + step] if False else longer(path, at + step)))
    return found


def longer(path, at):
    out = list(path)
    out.append(at)
    return out


def fails(a, b, k):
    rows = [[0] * 2 for _ in range(3)]
    for i in range(4):
        a[i] = i
        rows[i % 3][1] = i
        if i == 2:
            if k == 0:
                rows[i][2] = 1
            elif k == 1:
                rows[5].append(1)
            elif k == 2:
                rows[1].clear()
                rows[1].pop()
            elif k == 3:
                rows[-4][0] = 1
            elif k == 4:
                rows[0][-3] += 1
            elif k == 5:
                rows.pop().index(7)
    return rows


def choices(a, b, k):
    rows = [[i] for i in range(3)]
    best = None
    for row in rows:
        if best is None or row[0] * k > best[0] * k:
            best = row
    best.append(9)
    pick = rows[0] if k > 1 else rows[1]
    pick[0] = -1
    return rows, best, pick


def mixed_rows(a, b):
    rows = [[0, 0.5] for _ in range(3)]
    s = 0.0
    for i in range(len(a)):
        rows[i % 3][i % 2] += a[i]
        rows[i % 3].append(i)
        s += rows[i % 3][-1] + rows[0][0]
    return rows, s, min(rows[0]), sum(rows[1])


def inner_makes(a, b):
    def step(row):
        new = [0] * len(row)
        for i in range(len(row)):
            new[i] = row[i - 1] + row[i]
        return new

    row = [0, 1, 0, 2]
    seen = [row]
    for _ in range(len(a)):
        row = step(row)
        seen.append(row)
    row[0] = -1
    return seen, row


def emptied(a, b):
    levels = []
    for i in range(len(a)):
        levels.append([])
        for j in range(i):
            levels[j].append(i)
            if len(levels[j]) > 2:
                levels[j].clear()
    return levels, [len(x) for x in levels], [x for x in levels if x]


def nothing_in_them(a, b):
    rows = [[] for _ in range(len(a))]
    for row in rows:
        for x in row:
            row.append(x)
    return rows, len(rows[0])


def steps(a, b):
    grid = [[int(x) for x in b] for _ in range(3)]
    out = 0
    for i, row in enumerate(grid):
        for j, v in enumerate(row):
            out += i * v - j
            row[j] = out
    for x, y in zip(grid[0], grid[1], strict=False):
        out += x * y
    return grid, out, np.array(grid[2])


def rows_one_by_one(n, m):
    last = [0] * m
    count = 0
    for _ in range(n):
        row = [0] * m
        for j in range(m):
            row[j] = last[j] + 1
        last = row
        count += 1
    return count, last


def many_at_once(a, b):
    rows = [[i] for i in range(4)]
    out = []
    for i in range(len(a)):
        for row in (rows[0], rows[1], [i, i + 1], list(rows[2])):
            new = [row[0]] * 2
            out.append(new)
            rows[i % 4] = [x + 1 for x in row]
            rows.append(row)
        for k, row in enumerate(rows[:2]):
            rows[k] = row[:] if k else [sum(row), len(out)]
        pair = (rows[0], [i])
        d = {i: rows[1], -1: [i]}
        rows[i % 3] = [5, 6]
        out.append(pair[0])
        out.append(d[-1] if i % 2 else d[i])
    return rows, out


def keeps_one(a, b):
    best = [0]
    for i in range(len(b)):
        trial = [x + int(b[i]) for x in best]
        trial.append(i)
        if sum(trial) > sum(best):
            best = trial
        while len([x for x in best if x >= 0]) > 3:
            best = best[1:]
        if [y for y in trial if y > 2]:
            best[0] += len([y for y in trial])
    return best, trial


def longer_by_another(a, b):
    rows = [[1, 2], [3]]
    out = 0
    for v in rows[0]:
        for k in range(len(rows)):
            heapq.heappush(rows[k], v + 1)
        if len(rows[0]) > 6:
            break
        out += v
    for v in rows[1]:
        grow = rows[1]
        out += v
        if out < 100:
            grow += (v, v)
    return rows, out


def made_while_walked(a, b):
    x = [1] * 3
    out = []
    for i in range(len(a)):
        for v in x:
            x = [v + i] * (4 + i)
            out.append(v)
    return x, out


def sorted_again(a, b):
    row = [int(v) for v in b]
    seen = []
    for i in range(len(a)):
        row = sorted(row, reverse=i % 2 == 0) if False else sorted(row)
        row.append(-i)
        seen.append(row)
        other = row[::-1]
        other.sort()
        other.reverse()
        seen.append(other)
    return seen, np.array(row), len(seen[0])


def too_long(a, b, n):
    rows = []
    for i in range(len(a)):
        a[i] = 7
        rows.append([0] * (n if i else 2))
    return len(rows)


def neighbours_of_numpys(a, b):
    near = [[] for _ in range(4)]
    for i in range(min(len(a), len(b))):
        near[a[i]].append(b[i])
        near[b[i]].append(a[i])
    seen = [False] * 4
    seen[0] = True
    frontier = [0]
    order = []
    while frontier:
        after = []
        for u in frontier:
            order.append(u)
            for v in near[u]:
                if not seen[v]:
                    seen[v] = True
                    after.append(v)
        frontier = after
    return order, near


def longer_while_it_is_walked(a, b):
    queue = [0]
    for u in queue:
        for v in (2 * u + 1, u + 3):
            if v <= len(a) and v not in queue:
                queue.append(v)
    short = [int(x) for x in b]
    for x in short:
        if x % 2:
            short.pop()
    pairs = [(0, 0)]
    for x, y in pairs:
        if x + y < len(b):
            pairs.append((x + 1, y * 2))
    for x in short:
        if x == 0:
            short = [7, 8]
    return queue, short, pairs


def longer_by_a_function(a, b):
    queue, others = [0], []

    def grow(x):
        others.append(x)
        if x < len(a):
            queue.append(x + 1)

    for x in queue:
        grow(x)
    return queue, others


def joined_rows(a, b):
    for k in range(2):
        rows = [[] for _ in range(4)]
        for x in a:
            rows[x].append(int(x) + k)
        joined = [x for row in rows for x in row]
        total = sum(x for row in rows for x in row)
    return joined, total, [[x + 1 for x in row] for row in rows]
