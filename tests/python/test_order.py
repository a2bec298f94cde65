"""Names and arrays that change within a statement: what is read before and after is what Python reads there."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python.conftest import Ended, ended, same


def rows_of_another(x, y):
    for _ in range(2):
        a = y[-1] + (y := y[:-2])[-1]
    return a, y


def ends_of_another(x, y):
    for k in range(2):
        v = y[:, k]
        a = v[-2:] + (v := v[:-2])[-2:]
        b = v[::-1][:2] * (v := v[1:])[::-1][:2]
    return a, b


def into_another(x, y):
    y[1:] = y[1:] + (y := y[::-1])[1:]
    return y


def all_of_another(x, y):
    for _ in range(2):
        z = y + (y := x)
        y[:] = y * (y := z)
        z = np.maximum(y, (y := x))
    return z, y


def lengths_of_another(x, y):
    n = y.shape[0] * 100 + (y := y[2:]).shape[0]
    while len(y) > len(y := y[1:]) and len(y) > 2:
        n += 1
    return n, y


def in_a_tuple(x, y):
    return (y, (y := x), y)


def updated(x, y):
    y += (y := x) * 2.0
    return y


def written_by_a_call(x, y):
    def f(v):
        v[1:] += 3.0
        return v[0]

    y[0] = (x[2] * 2.0) * f(x)
    y[1] = np.maximum(x[1] * 2.0, f(x))
    y[2, 0] = x[2, 0] * f(x)[0]
    return ((x[2] + 1.0) > f(x)).sum()


def view_written_by_a_call(x, y):
    def f(v):
        v[2] += 3.0
        return v[0]

    y[0] = x[2] * f(x)
    return y


def scratch_of_a_call(x, y):
    def f(v, i):
        v[i] = 2.0
        return 1 if i else 2.5

    scratch = np.zeros(3)
    total = 0.0
    for i in range(3):
        total += x[i, 0] * f(scratch, i)
    return total, scratch


def bump(v, k):
    v[k] += 1.0
    return int(v[k]) % 3


def ends_of_slices(x, y):
    for k in range(2):
        y[int(x[0, 0]) : bump(x[0], 0) + 3] *= 2.0
        y[int(x[k, 1]) :, bump(x[k], 1)] += 1.0
        v = y[int(x[k, 2]) % 2 : 4, bump(x[k], 2) :].copy()
    return v


def values_before_places(x, y):
    for k in range(2):
        y[bump(x[0], 0), bump(x[0], 1)] = x[0, 0] * 2.0 + x[0, 1]
        y[bump(x[k], 2) :] = x[k, 2]
        y[bump(x[0], 1)] = x[0] + x[k]
        y[1], y[bump(x[0], 1)] = x[0, 1], x[k, 1] * 2.0


def bases_before_subscripts(x, y):
    total = 0.0
    for k in range(2):
        total += (x * 2.0)[0, bump(x[0], 0)] * 3.0 + (x[0] + y[k])[bump(x[0], 1) :].sum()
        total += (x * 2.0).sum(axis=bump(x[k], 3) % 1)[k]
    return total


def masks_before_values(x, y):
    for _ in range(2):
        y[x[:, 0] > 4.5] += bump(x[:, 0], 1)
        y[x[:, 0] > 4.5] *= bump(x[:, 0], -1) + y[x[:, 0] > 4.5]
    return y


def items_of_tuples(x, y):
    total = 0.0
    for v in (x[0, 0], x[1, 1], x[0, 0] + x[1, 1]):
        x[1, 1] += v + 1.0
        x[0, 0] *= 2.0
        total = total * 10.0 + v
    for v in (x * 2.0, x + y):
        x[:] = v
    for v in (x, y, x[1:]):
        x = y
        y = v + 1.0
        v[0] += 1.0
    for k, v in enumerate((y[0, 0], y[0, 1])):
        y[0, k - 1] = total + v
    return total, x, y


def names_of_tuples(x, y):  # what the items say of `i` and `j` is taken before the loop
    i, j = 1, 2
    for i, j in ((j, i), (i + j, i), (j, j)):  # noqa: B020
        y[0, 0] += i * 10 + j
    for i, j in zip((i, j, 7), (j, i + 1, i), strict=False):  # noqa: B020
        y[1, 0] += i * 10 + j
    return i, j


def places_of_items(x, y):  # targets within what the loop goes over
    total = 0.0
    for y[0, 1], v in zip(x[:, 0], y[0], strict=False):  # noqa: B020
        total = total * 3.0 + v
    for v, x[1, 0], w in zip(x[:, 0], y[:, 0], x[1:, 0], strict=False):  # noqa: B020
        total += v * w
    return total


@pytest.mark.parametrize(
    "f",
    [
        rows_of_another, ends_of_another, into_another, all_of_another, lengths_of_another, in_a_tuple, updated,
        written_by_a_call, view_written_by_a_call, scratch_of_a_call, ends_of_slices, values_before_places,
        bases_before_subscripts, masks_before_values, items_of_tuples, names_of_tuples, places_of_items,
    ],
)  # fmt: skip
@pytest.mark.parametrize("shared", [False, True])
def test_changes_within_a_statement(agree: Callable[..., Ended], f: Callable[..., Any], shared: bool) -> None:
    x = np.arange(24.0).reshape(6, 4)
    agree(f, x, x[::-1] if shared else x[::-1] * 2.0)


def choice_of_views(x, y):
    k = 0
    y[:, 0] = x[:, k] + (x[:, (k := k + 1)] if len(x) > 2 else x[:, (k := k + 2)]) * x[:, k]
    return k


def call_of_two_types(x, y):
    def f(v):
        v[0, 0] += 9.0
        return 1 if v[1, 0] > 2.0 else 2.5

    return x[0, 0] + f(x)


def call_after_a_write(x, y):
    def write(v):
        v[1, 0] += 9.0
        return v[1, 0]

    def f(v):
        return 1 if v[1, 0] > 2.0 else 2.5

    return write(x) + f(x)


def call_after_another_reads(x, y):
    def first():
        return x[0, 0]

    def f(v):
        v[0, 0] += 9.0
        return 1 if v[1, 0] > 2.0 else 2.5

    return first() + f(x)


def call_that_reads_after_a_write(x, y):
    def write(v):
        v[1, 0] += 9.0
        return v[1, 0]

    def f():
        return 1 if x[1, 0] > 2.0 else 2.5

    return write(x) + f()


@pytest.mark.parametrize(
    "f", [call_of_two_types, call_after_a_write, call_after_another_reads, call_that_reads_after_a_write]
)
def test_what_stands_before_a_call_of_several_types(agree: Callable[..., Ended], f: Callable[..., Any]) -> None:
    """What gives several types is done in a statement of its own, after what is read and written before it."""
    agree(f, np.ones((4, 4)), np.zeros((4, 4)))


def test_what_is_not_moved_before_the_rest_of_its_statement() -> None:
    ours, plain = ([np.ones((4, 4)), np.zeros((4, 4))] for _ in range(2))
    with tw.config(fallback="silent"):
        found = ended(tw.jit(choice_of_views), ours)
    assert same(found, ended(choice_of_views, plain)) and same(ours, plain)
    with pytest.raises(tw.TilewiseError):
        tw.jit(choice_of_views, strict=True)(*ours)


def element_before_extreme(p, i, j):
    for _ in range(2):
        p[i] += min(p[j], 0)
    return p


def part_before_extreme(p, i, j):
    for _ in range(2):
        p[i : i + 2] += min(p[j], 0)
        p[1 // i :] *= max(p[j], 0)
    return p


def operands_before_extremes(p, i, j):
    s = 0.0
    for _ in range(2):
        s = p[i] * 2 - (p[j] + max(p[i - 1], 3) * min(1, p[j + 1]))
    return s


def arrays_before_extremes(p, i, j):
    q = p
    for _ in range(2):
        q = p * 2 + min(p[j], 0)
        p[int(p[i] > 0)] = p[i] + max(p[j], 2)
    return q


def slices_before_extremes(p, i, j):
    for row in (p, p[1:]):
        row[0:2] += max(1e300, 0)
        row[1:-1] = row[1::2][: len(row) - 2] - min(0, 1e300)
    return p


def draws_before_extremes(p, i, j):
    rng = np.random.default_rng(abs(i))
    for _ in range(2):
        p[rng.integers(2)] += min(rng.random(), 1) + max(2, rng.random() * 4)
        p[0] = rng.random(2).sum() + min(rng.random(), 1)
    return p, rng.random()


@pytest.mark.parametrize(
    "f",
    [
        element_before_extreme, part_before_extreme, operands_before_extremes, arrays_before_extremes,
        slices_before_extremes, draws_before_extremes,
    ],
)  # fmt: skip
@pytest.mark.parametrize("places", [(0, 1), (9, 8), (1, 8), (9, 1), (-1, 2), (1, 0), (-9, 8)])
def test_what_fails_first(agree: Callable[..., Ended], f: Callable[..., Any], places: tuple[int, int]) -> None:
    agree(f, np.array([1.5, -2.0, 3.0, 4.0]), *places)


def elements_by_an_array(p, j):
    for _ in range(1):
        p[np.array([j, 0])] += min(p[j], 0)
    return p


def test_an_update_by_an_array_is_left_to_python() -> None:
    p = np.array([1.5, -2.0])
    with pytest.raises(tw.TilewiseError, match="choice of int or float64"):
        tw.jit(elements_by_an_array, strict=True)(p, 1)


def below(x, k):
    if k < 1:
        return 1.0
    return x[k, 0] + below(x, max(k - 1, 0))


def halved(x, k):
    x[k, 0] *= 0.5
    if k < 1:
        return 1.0
    return x[0, 0] + halved(x, k - 1)


@pytest.mark.parametrize(("f", "compiles"), [(below, True), (halved, False)], ids=["reads", "writes"])
def test_recursion_beside_what_it_reads(f: Callable[..., Any], compiles: bool) -> None:
    """A call of several types is made before the rest of its statement only if it does not write what that reads."""
    x, y = np.arange(12.0).reshape(4, 3), np.arange(12.0).reshape(4, 3)
    with tw.config(native=False, fallback="silent"):
        assert same(ended(tw.jit(f), (x, 3)), ended(f, (y, 3)))
        assert same(x, y)
        if compiles:
            assert same(ended(tw.jit(f, strict=True), (x, 3)), ended(f, (y, 3)))
        else:
            with pytest.raises(tw.TilewiseError):
                tw.jit(f, strict=True)(x, 3)


def round(x, k):  # a name of a builtin, which writes nothing
    x[0, 0] = 9.0 + k
    return k


def rounding(x, k):
    return 1.0 if k < 1 else rounding(x, round(x, k) - 1)


def beside_rounding(x):
    return x * 2.0 + rounding(x, 3)


def named_twice(x, k):
    return 1.0 if k < 1 else named_twice(x, k - 1)


before = named_twice


def named_twice(x, k):  # which the first calls
    x[0, 0] = 9.0
    return 1.0 if k < 1 else before(x, k - 1)


def beside_other(x):
    return x * 2.0 + before(x, 3)


@pytest.mark.parametrize("f", [beside_rounding, beside_other])
def test_recursion_that_writes_through_others(agree: Callable[..., Ended], f: Callable[..., Any]) -> None:
    agree(f, np.arange(12.0).reshape(4, 3))


def not_read_of_two_types(p, q, r):
    z = np.array(min(r.shape[2], q[0]))
    x = z - 0  # noqa: F841
    for i in range(0):
        p[0] = p[0] - min(1.0, r[0, 0, i])
    return p


def test_what_is_not_read_of_a_choice_of_arrays(agree: Callable[..., Ended]) -> None:
    """Branches on the type of an array are not joined because nobody reads what they compute of it."""
    agree(not_read_of_two_types, np.zeros(1), np.array([1, 2], np.uint8), np.zeros((4, 5, 6)))
    agree(not_read_of_two_types, np.zeros(1), np.array([9, 2], np.uint8), np.zeros((4, 5, 6)))


def first_of_a_chain(a, n):
    for i in range(3):
        if not int(a[i]) <= n // (n - 3) < 7:
            raise ValueError("larger")
    return int(a[0]) < int(a[1]) <= 1 % n < 5


@pytest.mark.parametrize("a", [[], [1, 2, 3], [1, 2, 99]])
@pytest.mark.parametrize("n", [3, 4, 0])
def test_chains_of_comparisons_go_from_left_to_right(a: list[int], n: int) -> None:
    given = np.array(a, dtype=np.int64)
    assert same(ended(tw.jit(first_of_a_chain, strict=True), [given, n]), ended(first_of_a_chain, [given, n]))
