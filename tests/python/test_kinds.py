"""What values are decides what functions do: dtypes, classes, numbers of Python or NumPy."""

import numpy as np
import pytest

import tilewise as tw
from tests.python import kind_functions as f

A = np.array([0, 1, 2, 3])
DTYPES = ("float64", "float32", "int64", "int8", "uint8", "bool", "complex128")
REAL = DTYPES[:-1]
ROWS = [
    *[(g, A.astype(t)) for g in (f.needs_floats, f.scaled, f.by_dtype) for t in DTYPES],
    *[(f.by_class, A.astype(t), n) for t in DTYPES for n in (3, 2.5, True, np.float32(1), np.int8(2))],
    *[(g, A.astype(t)) for g in (f.chosen_into_dict, f.chosen_into_list, f.returned_into_list) for t in DTYPES],
    *[(f.chosen_divisors, A.astype(t)) for t in REAL],
    *[(g, A.astype(t), np.zeros(4)) for g in (f.chosen_argument, f.chosen_within, f.chosen_twice) for t in REAL],
    *[(f.sums_of_parts, A.astype(t), k) for t in DTYPES for k in (0, 2, 3)],
    *[(f.sum_of_part, A.astype(t), k) for t in DTYPES for k in (0, 2)],
    *[(f.sums_into_elements, A.astype(t), np.zeros(3)) for t in REAL],
    *[(f.fibonacci, n) for n in (2, 90, 100)],
    *[(f.powers_beside_a_new_array, n) for n in (5, 60)],
    (f.powers_beside_an_argument, 20, np.zeros(3)),
    *[(f.life, (np.arange(144).reshape(12, 12) * 7 % 5 < 2).astype(t)) for t in ("int64", "uint8", "bool", "float64")],
    *[(g, A.astype(t)) for g in (f.values_or_five, f.added_tests) for t in REAL],
    *[(f.first_or_other, A.astype(t), k) for t in REAL for k in (0, 7)],
    *[(f.chained_tests, A.astype(t), A[::-1].astype(t)) for t in REAL],
    *[(f.chained_tests, A[::-1].astype(t), A.astype(t)) for t in REAL],
    *[(f.fails_in_the_second, A, k) for k in (0, 1, 2)],
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_functions(agree, row):
    agree(*row)


def test_integers_that_grow_after_a_write_to_an_argument():
    with pytest.raises(OverflowError, match="more than 64 bits"):
        tw.jit(f.powers_beside_an_argument)(60, np.zeros(3))


def what_is_no_class(a):
    for x in a:
        if isinstance(x, 3):
            return 1
    return 0


def test_what_is_no_class():
    with pytest.raises(tw.TilewiseError, match="int where a type is expected"):
        tw.jit(what_is_no_class, strict=True)(A)
