"""Functions with loops that draw from Python's own generators."""

import random
from random import random as uniformly

import numpy as np

OWN = random.Random(9)


def area(n):
    inside = 0
    for _ in range(n):
        x = random.random()
        y = random.random()
        if x**2 + y**2 < 1.0:
            inside += 1
    return 4.0 * inside / n


def by_name(n):
    OWN.seed(n)
    s = 0.0
    for _ in range(n):
        s += uniformly() * 0 + OWN.random()
    return s


def every_method(rng, n):
    out = np.zeros((n, 14))
    items = [3, 5, 8]
    for i in range(n):
        out[i, 0] = rng.random()
        out[i, 1] = rng.uniform(2, 5.5)
        out[i, 2] = rng.randint(-3, 3)
        out[i, 3] = rng.randrange(10)
        out[i, 4] = rng.randrange(5, 1 << 40)
        out[i, 5] = rng.randrange(0, 100, 7)
        out[i, 6] = rng.getrandbits(5)
        out[i, 7] = rng.getrandbits(45)
        out[i, 8] = rng.choice(items)
        out[i, 9] = rng.normalvariate(1.0, 2.0)
        out[i, 10] = rng.gauss(0.0, 1.0)
        out[i, 11] = rng.expovariate(2.0)
        out[i, 12] = rng.lognormvariate(0.0, 0.5)
        out[i, 13] = rng.choice((1.5, 2.5))
    return out


def native_methods(rng, n):
    s = 0.0
    for i in range(n):
        s += rng.random() + rng.uniform(2, 5.5) + rng.randint(-3, i) + rng.randrange(10) + rng.getrandbits(33)
        s += rng.normalvariate() + rng.expovariate(2.0)
    return s


def ranges(rng, n, low, high):
    total = 0
    for _ in range(n):
        total ^= rng.randrange(low, high)
        total ^= rng.randint(low, high)
    return total


def bits(rng, k):
    total = 0
    for _ in range(9):
        total ^= rng.getrandbits(k)
    return total


def shuffled(rng, a):
    items = [1, 2, 3, 4, 5]
    for _ in range(3):
        rng.shuffle(a)
        rng.shuffle(items)
    return a, items, rng.choice(a)


def nothing_to_choose(rng, a):
    for _ in range(2):
        rng.random()
        v = rng.choice(a)
    return v


def seeded(n):
    random.seed(n)
    s = 0.0
    for _ in range(n):
        s += random.random() + random.randint(1, 6)
    random.seed()
    return s


def made_inside(n):
    s = 0.0
    for k in range(3):
        rng = random.Random(n + k)
        for _ in range(n):
            s += rng.random()
    return s, rng.randint(1, 10)


def of_two(one, other, n):
    s = 0.0
    for _ in range(n):
        s += one.random() * other.random()
    return s


def beside_numpy(one, other, n):
    s = 0.0
    for _ in range(n):
        s += one.random() + other.random() + min(one.random(), 1)
    return s


def turns(rng):
    return rng.randint(1, 6)


def in_a_function(rng, n):
    found = 0
    for _ in range(n):
        found = found * 7 + turns(rng)
        found %= 1000003
    return found
