"""Functions that differ where compiled code is less exact than Python. They are compiled, and run as they are."""

import numpy as np


def lists_as_subscripts(a):
    s = 0.0
    for i in range(len(a)):
        s += a[[0, 1]].sum() + a[[True, False, True]][1, 0] + a[[0, 1], [1, i]][1]
        s += a[:, [0, 2]][i, 1] + a[(0, 1), :][1, 1] + a[(0, 1)] + len(a[[]])
    return s, a[[0, i]], a[[[0, 1], [1, i]]]


def writes_by_lists(a):
    for i in range(len(a)):
        a[[0, 1]] = 7.0 + i
        a[[True, False, True]] += 1.5
        a[[0, 1], [1, i]] = -1.0
        a[:, [0, 2]] *= 2
        a[[]] = 3.0


def lists_out_of_range(a):
    for i in range(len(a)):
        a[[0, i + 1]] = i


def list_by_a_list(a):
    numbers = [0.5] * len(a)
    for _ in range(len(a)):
        numbers[[0]] = 1.0
    return numbers


def into_elements(a, b):
    for i in range(len(a)):
        a[i] = b[i]


def added_to_elements(a, b):
    for i in range(len(a)):
        a[i] += b[i] + b[i]


def one_number_into_a_slice(a, b):
    for i in range(len(a)):
        a[1:] = b[i]


def wrapped(a, b):
    for i in range(len(a)):
        a[i : i + 1] = b[i : i + 1]
        a[a == 1] = b[i]
        c = np.full(2, b[i], np.int8)
        d = np.int8(b[i])
    return c, d


def compared_with_floats(out, numbers, floats):
    for i in range(len(numbers)):
        for j in range(len(floats)):
            k, y = int(numbers[i]), float(floats[j])
            row = (k == y, k != y, k < y, k <= y, k > y, k >= y, y == k, y != k, y < k, y <= k, y > k, y >= k)
            row += (k in (1.0, y), k < 2.0**53, k < 1e19, complex(y, 0.0) == k, k != complex(y, 1.0), max(k, y) == k)
            row += (numbers[i] == y, k < floats[j])
            out[i, j, :] = row
    return max(k, y), min(y, k), min(k, y), max(y, k)


def divided_by_minus_one(numbers, by, out):
    for i in range(len(numbers)):
        n, d = int(numbers[i]), int(by[i])
        found = n // d, divmod(n, d)
        out[i] = found[0] % 1000
    return found


def greater_than_a_float(k):
    s = 0.0
    for i in range(3):
        if k > 2.0**53:
            s += i
    return s


def counts_up(a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = i * 1000 + j


def adds_to_itself(a):
    for i in range(len(a)):
        a[i] += i


def first_of_a_list(n):
    numbers = [0] * n
    numbers[0] = 5
    return numbers


def choices_into_elements(a, b, n, x):
    for i in range(len(a)):
        a[i, 0] = max(b[i], 100.1)
        a[i, 1] = b[i] if b[i] > n else n
        a[i, 2] = max(n, x)
        a[i, 3] = n if x > i else x


def unbound_in_both_choices(a, k):
    a[0] = 7
    for i in range(3):
        if k > 5:
            x = 1
        y = x if k > i else 2 * x
    return y


def unbound_in_a_function_inside(x):
    for k in range(0):
        x[k] = 0

    def inside():
        return k

    return inside() + x[0]


def unbound_in_what_is_gone_over_first(x):
    for k in range(0):
        x[k] = 0
    return len([v for v in range(k)]) + x[0]


def unbound_in_what_is_gone_over_next(x):
    for k in range(0):
        x[k] = 0
    return len([w for v in range(3) for w in range(k)]) + x[0]


def unbound_in_a_sum(x):
    for k in range(0):
        x[k] = 0
    return sum(w * k for w in range(3)) + x[0]


def unbound_in_a_list(x):
    for k in range(0):
        x[k] = 0
    return len([k for w in range(3) if x[0] > 0]) + x[0]


def machine_limits(x):
    eps, most = np.finfo(x.dtype).eps, np.iinfo(np.int64).max
    y, turns = x[0], 0
    while abs(y) > np.finfo(float).tiny and turns < 9:
        y *= eps
        turns += 1
        most = min(most, turns)
    return eps, y, turns, most, np.iinfo("uint8").max


def hash_of_64_bits(x):
    h = np.uint64(14695981039346656037)
    for i in range(len(x)):
        h = (h ^ np.uint64(i)) * np.uint64(1099511628211)
    return h


def roots_by_power(x):
    for i in range(len(x)):
        x[i] = x[i] ** 0.5


def generator_named_as_the_function_in_a_sum(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total + sum(x[i] * 2 for i in range(3)), i


def generator_named_as_the_function_in_a_list(x):
    i = 2
    found = [i * v for i in range(i + 1) for v in x]
    return len(found), found[3], i


def generator_named_as_the_function_in_a_dict(x):
    for i in range(2):
        x[i] += 1
    found = {i: x[i] for i in range(3)}
    return found[2], i


def generator_named_as_the_function_in_a_nested(x):
    i = len(x)
    return sum([sum([i for i in range(i)]) for i in range(i)]), i
