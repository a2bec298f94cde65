"""Functions with loops, as users write them: each has a construct that is compiled."""

import math

import numpy as np

OFFSET = 2
TABLE = np.array([1.0, 10.0, 100.0])


def ranges(n):
    total = 0
    for i in range(n):
        for j in range(n, i, -2):
            total += i * j
    for k in range(3, n):
        total -= k
    return total


def element_updates(a, k):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = a[i, j - 1] * k + a[-1, -j]
            a[i, j] //= 3
    return a


def starts_as_int(a):
    s = 0
    for i in range(len(a)):
        s += a[i]
    return s


def while_loop(x):
    steps = 0
    while x != 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1
        if steps > 1000:
            return None
    return steps, x


def leaves_early(a):
    for i, x in enumerate(a):  # noqa: B007
        if x < 0:
            continue
        if x == 7:
            break
    else:
        return -1
    return i, x


def unbound(a):
    for i in range(len(a)):
        if a[i] > 100:
            found = i
    return found


def after_empty_loop(n):
    i = "nothing"
    for i in range(n):  # noqa: B007
        pass
    return i


def slices(a, steps):
    b = np.zeros_like(a)
    for _ in range(steps):
        b[1:-1] = 0.5 * (a[:-2] + a[2:])
        a, b = b, a
    return a, b[::-1]


def overlapping(a):
    for _ in range(2):
        a[1:] = a[:-1]
        a[:-1] += a[1:]
    return a


def dots(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[j, :j]
        a[i, i] = np.sqrt(abs(a[i, i] - np.dot(a[i, :i], a[i, :i])))
    return a


def reductions(a):
    out = np.empty(7)
    for i in range(a.shape[0]):
        row = a[i]
        out[0] = np.sum(row)
        out[1] = row.min()
        out[2] = np.max(row)
        out[3] = row.mean()
        out[4] = np.prod(row[1:])
        out[5] = np.argmax(row)
        out[6] = np.any(row > 2) + np.all(row > 2)
    return out, a.sum(axis=0), np.max(a, axis=1)


def helper(x, power=2, *, shift=0.0):
    if x < 0:
        return shift
    return x**power + shift


def calls(a):
    total = 0.0
    for x in a:
        total += helper(float(x)) - helper(float(x), 3, shift=0.5)
    return total


def nested_functions(a, scale):
    def scaled(x):
        return x * scale

    twice = lambda x: scaled(x) + scaled(x)  # noqa: E731
    total = 0.0
    for i in range(len(a)):
        total += twice(a[i])
    return total


def several_types(a):
    best = 0
    for x in a:
        best = max(best, x)
    return best


def gives_several(x):
    return 0 if x < 0 else x


def call_of_several_types(a):
    s = 0
    for x in a:
        s += gives_several(x)
    return s


def python_integers(n):
    x = 1
    for i in range(1, n):
        x = x * i
    return x


def numpy_integers(a):
    x = a[0]
    for _ in range(70):
        x = x * 3
    return x, a[1] // 0, a[2] % 4, a[0] >> 1


def small_integers(n):
    a = np.zeros(n, dtype=np.uint8)
    for i in range(n):
        a[i] = a[i - 1] + 200
    return a


def bits(x):
    count = 0
    while x:
        x &= x - 1
        count += 1
    return count, ~count, 1 << count, count ^ 3


def mathematics(x):
    s = 0.0
    for i in range(1, 5):
        s += math.sqrt(i) + math.exp(-i) + math.floor(x) + math.atan2(x, i) + np.exp(x) + np.sin(x * i)
    return s


def complex_numbers(n):
    z, k = 0j, 0
    c = complex(-0.4, 0.6)
    while abs(z) < 4.0 and k < n:
        z = z * z + c
        k += 1
    return z, k, z.real, (1 + 2j) / (z + 1)


def chains(a):
    n = 0
    for i in range(len(a)):
        if 0 <= a[i] < 5 and not (a[i] == 3 or a[i] in (1, 2)):
            n += 1
    return n


def guarded(a):
    s = 0.0
    for i in range(-2, len(a) + 2):
        if 0 <= i < len(a) and a[i] > 0:
            s += a[i]
    return s


def tuples(a):
    low, high = a[0], a[0]
    for x, y in zip(a, a[::-1], strict=False):
        low, high = min(low, x), max(high, y)
    pair = (low, high)
    return pair[1], pair


def comprehensions(a):
    s = 0
    for i in range(3):
        s += sum(x * i for x in a if x > 0)
    return s, any(x == 7 for x in a), all(x > 0 for x in a)


def masks(a):
    for _ in range(2):
        a[a < 0] = 0.5
        b = np.where(a > 2, a, -a)
    return b


def gathers(a, at):
    total = 0.0
    for _ in range(2):
        total += a[at].sum()
    return total


def allocations(n):
    x = np.ones(n)
    for k in range(20):
        y = np.full((n, 2), float(k))
        x = x * 0.5 + y[:, 0]
    return x, np.eye(3), np.arange(2, 8, 3), np.linspace(0.0, 1.0, 5)


def globals_and_tables(a):
    for i in range(len(a)):
        a[i] += TABLE[i % 3] * OFFSET
    return a


def walrus(a):
    n = 0
    while (x := a[n]) > 0:
        n += 1
    return n, x


def divides(a, k):
    for i in range(len(a)):
        a[i] = 6 / (i - k)


def modulo(a, k):
    for i in range(len(a)):
        a[i] = i % (k - i)


def out_of_range(a):
    for i in range(10):
        a[i] += 1


def row_out_of_range(a):
    for i in range(10):
        a[i] = i


def raises(a):
    for i in range(len(a)):
        a[i] = 1
        if i == 2:
            raise ValueError(f"bad place {i}")


def asserts(a):
    for x in a:
        assert x > 0, "negative"


def square_root(a):
    for i in range(len(a)):
        a[i] = math.sqrt(float(a[i]))


def into_integers(a, x):
    for i in range(len(a)):
        a[i] = x[i]


def shapes(a, b):
    for _ in range(2):
        a[1:] += b


def overflows_after_a_write(a, x):
    for i in range(len(a)):
        a[i] = 1
        x = x * x
    return x


def complex_first(a):
    for i in range(len(a)):
        z = 1j + a[i]
    return z, a[0] + 1j


def evaluated_before_it_is_converted(a, k):
    for i in range(3, 1, -1):
        a[0] = k - a[i]


def tuples_turned(n):
    t, u, v, w = (1.0, 2.0), (1, 2, 3), (1, (2, 3)), (4, 5)
    s = (1.0, 1.0)
    for i in range(n):
        t = (t[1], t[0])
        u = u[::-1]
        v = (v[1][1], (v[0], v[1][0]))
        w: tuple = (w[1], w[0] + i)
        s = (s[1], s[0] + s[1])
    return t, u, v, w, s


def tuples_of_several_types_turned(n):
    t = (1, 2.5)
    for _ in range(n):
        t = (t[1], t[0])
    return t


def tuples_of_arrays_turned(a, b, n):
    t = (a, b)
    u = (a[1:], b[:-1])
    for i in range(n):
        t = (t[1], t[0])
        u = (u[1][::-1], u[0] + 1.0)
        t[0][i] += 100.0
    return t[0].copy(), t[1].copy(), u[0].copy(), u[1].copy()


def tuple_argument_turned(t, n):
    for _ in range(n):
        t = (t[1][0], (t[0], t[1][1]))
    return t


def tuples_turned_by_walrus(a):
    t = (1.0, 2.0)
    s = 0.0
    for i in range(len(a)):
        u = (t := (t[1], t[0] + 1.0))
        s += a[i] * u[0] + u[1]
    return t, s


def _turned(t, n):
    for _ in range(n):
        t = (t[1], t[0])
    return t


def tuples_turned_in_a_function(n):
    t = (1.0, 2.0)
    for i in range(n):
        t = _turned(t, i)
    return t


def walrus_of_an_array(a):
    s = 0.0
    for _ in range(2):
        b = (a := a + 1.0)
        s += b[0]
    b[1] = 7.0
    return s, a.copy(), b.copy()


def known_choices(a, b, c):
    for i in range(len(a)):
        t = b or c
        u = b and c
        v = () or i
        w = (a[i], i) and c
        x = None or b or (3, i)
        y = bool(b), bool((a[i],)), bool(c or None), not c, not ()
    return t, u, v, w, x, y


def conditions_of_no_numbers(a, b, c):
    s = 0
    for i in range(len(a)):
        if b or a[i] > 2:
            s += 1
        if not c and a[i] < 3:
            s += 10
        s += 100 if b else 1000
        while c:
            break
        s += a[i] in (None, 3, 7)
    return s


def choices_of_tuples(a):
    s = 0.0
    for i in range(len(a)):
        t = (1, 2) if a[i] > 2 else (3, 4.5)
        u = (a[i], i) if a[i] > 0 else None
        v = True if a[i] > 0 else None
        s += t[1] + ((1, 2) if a[i] > 2 else (3, 4))[0]
    return s, t, u, v


def choice_of_an_array(a, n):
    for i in range(n):
        t = a if i else a  # noqa: RUF034
    return t


def extremes_of_tuples(a):
    for i in range(len(a)):
        x = max((a[i], 2))
        y = min([a[i], 2.0])
        z = highest(a[i], i)
    return x, y, z


highest = max


def greatest(a, x):
    for i in range(len(a)):
        y = max(a[i], x) if a[i] > 0 else 0.0
    return y


def absolute(a, x):
    for _ in range(len(a)):
        y = abs(x)
    return y


def root(a, x):
    for _ in range(len(a)):
        y = math.sqrt(x)
    return y


def negated(a, x):
    for _ in range(len(a)):
        y = -x
    return y


def either(a, x):
    s = ()
    for i in range(len(a)):
        s += (a[i] or x, a[i] and x)
    return s


def compared_with_tuples(a, s):
    for i in range(len(a)):
        s = max(s, (a[i], i))
    return s


def contained(a, x):
    for i in range(len(a)):
        y = i in (x, 3)
    return y


def listed(a, x):
    for i in range(len(a)):
        t = [x] + [a[i]]
        u = v = [x] * 2
    return len(t), type(t).__name__, type(u).__name__, u is v


def counted_ones(x, y, k):
    counts = np.zeros(5, dtype=np.int64)
    for i in range(len(x)):
        v = x[i]
        n = 0
        while v:
            n += 1
            v &= v - 1
        w, m = y[i], 2
        while w > 0:
            w &= w - 1
            m += 1
        j, ones = k - i, 0
        while j > 0:
            j &= j - 1
            ones += 1
        while w:  # counts nothing
            w &= w - np.int64(1)
        counts[n % 5] += n + 3 * ones + v - j
        counts[n] += m
    return counts, v, w, j


def shifted(a, k):
    s = 0.0
    for i in range(len(a)):
        s += a[i + k]
    for i in range(len(a)):
        a[i + k] = s
    return s


def counted_cells(table, a, b):
    for r in range(len(a)):
        table[1, a[r], b[r]] += 1
    return table
