"""Arrays of zeros that a nest of loops writes first are not cleared; all others are."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.kernel.test_program_passes import program_of
from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import statements

X = np.arange(60.0).reshape(6, 10) / 7


def nest(x, n):
    m, k = x.shape
    out = np.zeros((m - 2, k - 2))
    for i in range(m - 2):
        for j in range(k - 2):
            s = 0.0
            for a in range(3):
                s += x[i + a, j + 1]
            out[i, j] = s
    return out


def by_columns(x, n):
    out = np.zeros(x.shape)
    for j in range(x.shape[1]):
        for i in range(len(out)):
            out[i, j] = x[i, j] + n
            out[i, j] *= 2.0
    return out


def each_turn(x, n):
    total = 0.0
    for t in range(n):
        rows = np.zeros(len(x), np.float32)
        for i in range(len(x)):
            rows[i] = x[i, t % x.shape[1]]
        for i in range(1, len(rows)):
            total += rows[i] * rows[i - 1]
    return total


def both_ways(x, n):
    out = np.zeros(len(x))
    for i in range(len(x)):
        if x[i, 0] > n:
            out[i] = x[i, 1]
        else:
            out[i] = -1.0
    return out


def inner_loop_reads_its_own(x, n):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = 1.0
        for j in range(n):
            out[i] += x[i, j]
    return out


def adds(x, n):
    out = np.zeros(len(x))
    for i in range(len(x)):
        for j in range(n):
            out[i] += x[i, j]
    return out


def inside(x, n):
    out = np.zeros(x.shape)
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            out[i, j] = x[i - 1, j]
    return out


def every_other(x, n):
    out = np.zeros(len(x))
    for i in range(0, len(x), 2):
        out[i] = x[i, 0]
    return out


def left_early(x, n):
    out = np.zeros(len(x))
    for i in range(len(x)):
        if x[i, 0] > 3.0:
            break
        out[i] = x[i, 0]
    return out


def skips(x, n):
    out = np.zeros(len(x))
    for i in range(len(x)):
        if x[i, 0] > 3.0:
            continue
        out[i] = x[i, 0]
    return out


def one_way(x, n):
    out = np.zeros(len(x))
    for i in range(len(x)):
        if x[i, 0] > 3.0:
            out[i] = x[i, 0]
    return out


def looks_back(x, n):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = x[i, 0] + out[i - 1]
    return out


def looks_on(x, n):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = x[i, 0]
        if i < n:
            out[i] += out[i + 1]
    return out


def shorter(x, n):
    out = np.zeros(len(x))
    for i in range(n):
        out[i] = x[i, 0]
    return out


def length_changes(x, n):
    m = n + 1
    out = np.zeros(m)
    m = n - 1
    for i in range(m):
        out[i] = x[0, i]
    return out


def length_of_another_turn(x, n):
    k = 1
    m = 0
    total = 0.0
    for t in range(3):
        if t == 0:
            m = k * 4
        k = t + 1
        out = np.zeros(m)
        for i in range(k * 4 if t == 0 else 2):
            out[i] = 1.0
        for i in range(len(out)):
            total += out[i] * (i + 1)
    return total


def maybe_not_at_all(x, n):
    out = np.zeros(len(x))
    for i in range(len(x)):
        for j in range(n - 3):
            out[i] = x[i, j]
    return out


def transposed_lengths(x, n):
    out = np.zeros((10, 6))
    for i in range(6):
        for j in range(6):
            out[i, j] = x[i, j]
    return out


def jumps_over(x, n):
    while True:
        out = np.zeros(len(x))
        if n > 2:
            break
        for i in range(len(x)):
            out[i] = x[i, 0]
        n += 1
    return out


def counter_changes(x, n):
    out = np.zeros(len(x))
    for i in range(len(x)):
        i = i // 2
        out[i] = x[i, 0]
    return out


def seen_by_a_view(x, n):
    out = np.zeros(len(x))
    part = out[1:]
    for i in range(len(x)):
        out[i] = x[i, 0] + part[0]
    return out


def handed_on(x, n):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = np.sort(out)[0] + x[i, 0]
    return out


def overwritten_later(x, n):
    out = np.zeros(len(x))
    first = out[n]
    for i in range(len(x)):
        out[i] = x[i, 0]
    return out, first


NOT = [
    adds, inside, every_other, left_early, skips, one_way, looks_back, looks_on, shorter, length_changes,
    length_of_another_turn, maybe_not_at_all, transposed_lengths, jumps_over, counter_changes, seen_by_a_view,
    handed_on, overwritten_later,
]  # fmt: skip
SURE = [nest, by_columns, each_turn, both_ways, inner_loop_reads_its_own]


def cleared(f: Any, *args: Any) -> int:
    """How many allocations are cleared."""
    return sum(isinstance(s, ir.Alloc) and s.zero for s in statements(program_of(f, *args).body))


def dirty() -> None:
    """Leave memory behind that is not zero."""
    kept = [np.full(n, 7.5) for n in (4, 6, 8, 10, 32, 60) for _ in range(8)]
    del kept


@pytest.mark.parametrize("f", SURE, ids=lambda f: f.__name__)
def test_what_is_written_first_is_not_cleared(f):
    assert cleared(f, X, 3) == 0
    with tw.config(without="zeros"):
        assert cleared(f, X, 3) == 1


@pytest.mark.parametrize("f", NOT, ids=lambda f: f.__name__)
def test_what_may_be_read_first_is_cleared(f):
    assert cleared(f, X, 3) >= 1


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("f", [*SURE, *NOT], ids=lambda f: f.__name__)
def test_results(f, n, agree):
    for x in (X, np.asfortranarray(X), X[::-1]):
        dirty()
        agree(f, x, n)
