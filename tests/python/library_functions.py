"""Functions with loops that call what has no native form: sorts, transforms, factorisations, random numbers."""

import numpy as np

GENERATOR = np.random.default_rng(5)


def sorted_rows(a):
    total = 0.0
    for i in range(a.shape[0]):
        b = np.sort(a[i])
        order = np.argsort(a[i])
        total += b[0] + order[-1]
        a[i, :] = b
    return total, a


def sorts_in_place(a):
    for i in range(a.shape[0]):
        a[i].sort()
    return a[:, 0].copy()


def factorisations(a):
    out = np.zeros(a.shape[0])
    for k in range(3):
        L = np.linalg.cholesky(a + (k + 1) * np.eye(a.shape[0]))
        x = np.linalg.solve(a + 9 * np.eye(a.shape[0]), L[:, 0])
        w, v = np.linalg.eigh(a)
        out += x + w * np.linalg.det(L)
        out[k % 2] += np.abs(v[0, 0])
    return out


def transforms(x):
    y = np.fft.fft(x)
    for i in range(len(y)):
        y[i] *= i
    return np.fft.ifft(y).real


def reshaped(a):
    b = a.reshape(-1)
    for i in range(len(b)):
        b[i] += i
    c = np.reshape(b, (a.shape[1], a.shape[0]))
    c[0, 0] = -5.0
    t = a.T.ravel()
    t[0] = 100.0
    return b, c, t


def joined(a, n):
    b = a
    for i in range(n):
        b = np.concatenate((b, a + i))
    return np.cumsum(b), np.unique(b), np.std(b), a.var()


def grids(n):
    g = np.mgrid[0:n, 0:3]
    x, y = np.meshgrid(np.arange(n), np.arange(2))
    s = 0
    for i in range(n):
        s += g[0, i, 0] * 10 + x[0, i] + y[1, 0]
    return s, g


def fails(a):
    for i in range(2):
        a[i, 0] = 7.0
        x = np.linalg.inv(a - a)
    return x


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    inside = 0
    for _ in range(n):
        x, y = rng.random(), rng.random()
        if x * x + y * y < 1.0:
            inside += 1
    z = rng.normal(size=3)
    p = np.arange(5)
    rng.shuffle(p)
    return inside, z, p, rng.integers(0, 10, 4)


def drawn_from_argument(rng, n):
    s = 0.0
    for _ in range(n):
        s += rng.uniform(-1.0, 1.0)
    return s


def drawn_from_all(n):
    s = 0.0
    np.random.seed(3)
    for _ in range(n):
        s += np.random.rand() + np.random.randint(0, 5)
    return s, np.random.randn(2, n)


def drawn_from_global(n):
    s = 0.0
    for _ in range(n):
        s += GENERATOR.random()
    return s


def surprising(a, n):
    s = 0.0
    for _ in range(n):
        s += np.squeeze(a).sum()
    return s


def by_masks(a, n):
    for i in range(n):
        m = a > i
        b = a[m]
        a[m] = b * 2.0
        a[a > 3 * n] = -1.0
        a[~m] += 0.5
    return a[a > 1].sum(), len(a[a < -100]), np.where(a > 0)[0], a[np.array([0, -1])]


def rows_by_masks(a, m):
    out = a[m]
    for i in range(out.shape[0]):
        a[m] = out[i, 0]
    a[:, m[: a.shape[1]]] *= 2.0
    return out


def wrong_masks(a, k):
    for _ in range(2):
        a[a > 0] = np.ones(k)
    return a


def several_axes(a):
    out = np.zeros(a.shape[1])
    for _ in range(2):
        out += a.sum(axis=(0, 2)) + np.max(a, axis=(-1, 0))
    return out, np.mean(a, axis=(0, 1), keepdims=True), a.max(keepdims=True), np.prod(a, axis=1), a.all(axis=(1,))


def zero_dimensional(x, y):
    s = x + 1
    for _ in range(2):
        s = s * y + x
    return s


def complex_powers(z, n):
    s = z * 0
    for k in range(n):
        s += z**k + np.power(z, 0.5)
    return s


def shapes_assigned(n, m):
    rows, columns = np.mgrid[0:n, 0:m]
    c = rows * 10.0 + columns
    rows.shape = columns.shape = c.shape = n * m
    kept = np.zeros((n, m))
    for i in range(3):
        if not len(c):
            break
        chosen = c > i * 7
        kept[rows[chosen], columns[chosen]] = i + 1
        np.logical_not(chosen, chosen)
        c = c[chosen]
        rows, columns = rows[chosen], columns[chosen]
    return kept.T, c


def shape_that_does_not_fit(n):
    a = np.zeros(n)
    for _ in range(2):
        a[0] += 1.0
    a.shape = (2, 3)
    return a


def shape_under_two_names(n):
    a = np.zeros(n)
    b = a
    for _ in range(2):
        a[0] += 1.0
    a.shape = (2, n // 2)
    return b.ndim
