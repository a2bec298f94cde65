"""Functions with loops that draw one number at a time from NumPy's generators."""

import numpy as np

SHARED = np.random.default_rng(11)
CALLS = [0]


def every_method(rng, n, x, y):
    out = np.zeros((n, 20))
    for i in range(n):
        out[i, 0] = rng.random()
        out[i, 1] = rng.standard_normal()
        out[i, 2] = rng.normal(x, y)
        out[i, 3] = rng.standard_exponential()
        out[i, 4] = rng.exponential(scale=y)
        out[i, 5] = rng.standard_gamma(y)
        out[i, 6] = rng.gamma(y, 2.0)
        out[i, 7] = rng.beta(y, 0.5)
        out[i, 8] = rng.chisquare(df=3)
        out[i, 9] = rng.standard_cauchy()
        out[i, 10] = rng.standard_t(2.5)
        out[i, 11] = rng.pareto(y)
        out[i, 12] = rng.weibull(y)
        out[i, 13] = rng.power(y)
        out[i, 14] = rng.laplace(scale=y) + rng.gumbel(x)
        out[i, 15] = rng.logistic(x, y)
        out[i, 16] = rng.lognormal(x, 0.5)
        out[i, 17] = rng.rayleigh(y)
        out[i, 18] = rng.poisson(3.0 * y)
        out[i, 19] = rng.uniform(x, high=x + y)
    return out


def defaults(rng, n):
    s = 0.0
    for _ in range(n):
        s += rng.normal() + rng.exponential() + rng.uniform() + rng.lognormal() + rng.rayleigh() + rng.poisson()
        s += rng.laplace() + rng.gumbel() + rng.logistic() + rng.gamma(1) + rng.normal(loc=np.float32(0.5), size=None)
    return s


def integers(rng, n, low, high):
    out = np.zeros((n, 5), np.int64)
    for i in range(n):
        out[i, 0] = rng.integers(7)
        out[i, 1] = rng.integers(low, high)
        out[i, 2] = rng.integers(low, high, endpoint=True)
        out[i, 3] = rng.integers(high=9, low=-3)
        out[i, 4] = rng.integers(0, 1)
    return out


def kinds(rng, n):
    s = 0
    t = 0.0
    for _ in range(n):
        s = rng.integers(0, 100)
        t = rng.random()
        p = rng.poisson(2)
    return s, t, p


def by_state(rng, n, low, high):
    out = np.zeros((n, 8))
    for i in range(n):
        out[i, 0] = rng.random() + rng.random_sample()
        out[i, 1] = rng.rand()
        out[i, 2] = rng.uniform(low, high)
        out[i, 3] = rng.randint(5)
        out[i, 4] = rng.randint(-3, high=40)
        out[i, 5] = rng.normal(low, 2.0)
        out[i, 6] = rng.uniform(high, low)
        out[i, 7] = rng.randn()
    return out


def by_all(n):
    np.random.seed(8)
    s = 0.0
    for i in range(n):
        s += np.random.random() * np.random.rand() + np.random.uniform(1, 2) + np.random.randint(0, 9)
        if i == 3:
            np.random.seed(2)
    return s, np.random.rand()


def wrong(rng, n, x):
    s = 0.0
    for i in range(n):
        s += rng.random()
        if i == 3:
            s += rng.normal(0.0, x)
            s += rng.uniform(0.0, x)
    return s


def wrong_integers(rng, low, high):
    s = 0
    for _ in range(3):
        s += rng.integers(low, high)
    return s


def made_inside(n, seeds):
    out = np.zeros((seeds, 3))
    for k in range(seeds):
        rng = np.random.default_rng(k)
        other = np.random.RandomState(k)
        for _ in range(n):
            out[k, 0] += rng.random()
            out[k, 1] += rng.normal()
            out[k, 2] += other.rand()
    return out


def of_two(first, second, n):
    s = 0.0
    for _ in range(n):
        s += first.random() - second.normal()
    return s


def step(x, rng):
    return x + rng.normal() * (rng.integers(0, 2) * 2 - 1)


def in_a_function(rng, n):
    x = 0.0
    for _ in range(n):
        x = step(x, rng)
    return x


def depth(rng, p, d):
    if d == 0 or rng.random() > p:
        return 1
    return depth(rng, p, d - 1) + depth(rng, p, d - 1)


def in_a_recursion(rng, n):
    s = 0
    for _ in range(n):
        s += depth(rng, 0.7, 6)
    return s, rng.random()


def beside_python(rng, n):
    s = 0.0
    for _ in range(n):
        s += rng.random() + rng.normal(size=2).sum() + rng.random()
        p = np.arange(4)
        rng.shuffle(p)
        s += p[0] * rng.standard_normal()
    return s


def filled(rng, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = rng.random()
    return a


def of_shared(n):
    s = 0.0
    for _ in range(n):
        s += SHARED.random()
    return s
