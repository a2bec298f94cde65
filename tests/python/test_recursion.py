"""Functions that call themselves, against plain Python."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import recursive_functions as f

V = np.array([3.0, -1.0, 2.5, 9.0, -0.0, 7.5, 1.0])

ROWS: list[tuple[Any, ...]] = [
    (f.fib, 12),
    (f.ackermann, 2, 3),
    (f.quicksort, V),
    (f.quicksort, V[::-2]),
    (f.quicksort, np.array([3, 1, 2], np.int16)),
    (f.merge_sorted, V),
    (f.merge_sorted, V[:0]),
    (f.parity, V),
    (f.mixed, 8),
    (f.mixed, 2),
    (f.hanoi, 4),
    (f.flood, np.eye(4, dtype=np.int64), 0, 2),
    (f.raises_deep, V, 5),
    (f.overflows, 30),
    (f.pairs, 6),
    (f.halves, V),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_recursive_functions_do_what_python_does(agree, row):
    agree(*row)


def test_a_view_that_comes_back_through_calls_shows_the_argument():
    a = V.copy()
    got = tw.jit(f.halves, strict=True)(a)
    got[0] = 100.0
    assert a[0] == 100.0


def test_without_end():
    with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
        tw.jit(f.endless, strict=True)(0)
