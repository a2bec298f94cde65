"""Lists of numbers inside of compiled functions, against plain Python."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import list_functions as f

V = np.array([3.0, -1.0, 2.5])

ROWS: list[tuple[Any, ...]] = [
    (f.primes, 60),
    (f.primes, 2),
    (f.stack, np.array([[0, 1, 1], [1, 0, 0], [0, 1, 1]])),
    (f.items, V, -1),
    (f.items, V, 9),
    (f.items, np.arange(20), 5),
    (f.comprehensions, V),
    (f.comprehensions, np.array([5, -2])),
    (f.comprehensions, -V[:2]),
    (f.filled, 5),
    (f.filled, 0),
    (f.pops_too_much, V),
    (f.filled_by_another, 30),
    (f.made_again, 20),
    (f.beside_each_other, 4),
    (f.mixed, 3),
    (f.from_others, V, 7),
    (f.from_others, np.arange(2), 0),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_lists_do_what_pythons_do(agree, row):
    agree(*row)


def test_what_lists_cannot_be_is_said():
    with pytest.raises(tw.TilewiseError, match="sort of a list of lists"):
        tw.jit(f.sorted_rows, strict=True)(4)
    with pytest.warns(tw.PerformanceWarning, match="sort of a list of lists"):
        assert tw.jit(f.sorted_rows)(4) == f.sorted_rows(4)
