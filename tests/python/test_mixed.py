"""Lists and dicts of several types of numbers: each item keeps the type that it has in Python."""

import numpy as np
import pytest

import tilewise as tw
from tests.python import mixed_functions as f

A = np.array([3.0, -1, 2, 5, 2, 0])
ROWS = [
    (f.reached, np.array([0, 2, 3, 4, 4]), np.array([1, 2, 3, 3])),
    *[(g, a) for g in (f.next_greater, f.rising, f.best_sums, f.updated) for a in (A, A.astype("i4"), A[:0])],
    (f.chosen, A),
    (f.as_an_array, A),
    (f.as_an_array, A[:0]),
    (f.distances, np.array([[9, 1.0, 4], [1, 9, 2], [4, 2, 9]])),
    (f.distances, np.array([[9, 1, 4], [1, 9, 2], [4, 2, 9]])),
    (f.in_order, A),
    (f.three_types, A),
    (f.divided, A),
    *[(f.one_of_them, A, k) for k in (0, 1, 3, -4, 4)],
    (f.as_subscripts, A),
    (f.by_an_inner_function, A),
    (f.of_a_choice, A),
    (f.while_it_grows, 5),
    (f.grown, 30),
    *[
        (g, a)
        for g in (f.added_by_key, f.updated_by_key, f.subscripts_once, f.by_branches, f.defaults_by_key, f.no_such_key)
        for a in (A, A.astype("i8"))
    ],
    (f.remembered, 6),
    *[(f.pairs_of_several_types, a) for a in (A, A.astype("i4"), A[:1], A[:0])],
    *[(g, a) for g in (f.all_of_it, f.extremes, f.taken_in_order, f.put_in, f.many_items) for a in (A, A[:2])],
    *[(f.first_failure, A[:1], k) for k in range(-4, 4)],
    *[(f.drawn_in_order, A, k) for k in range(4)],
    *[(f.not_both, A, k) for k in (0, 1, 2, -1)],
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_functions(agree, row):
    agree(*row)


def test_each_item_overflows_as_its_type_does():
    with np.errstate(over="ignore"):
        got = tw.jit(f.wraps)(np.array([1 << 62, 0]))
        assert got == f.wraps(np.array([1 << 62, 0])) == 1 << 64  # of Python's numbers
        assert tw.jit(f.wraps, strict=True)(np.array([1, 0])) == 4


def five_types(a):
    t = [a[0], 1, 1.5, True, 1j]
    for i in range(2):
        t.append(i)
    return t


def test_too_many_types_are_refused():
    with pytest.raises(tw.TilewiseError, match="a list of float64 or int or float or bool or complex"):
        tw.jit(five_types, strict=True)(A)


def to_an_array(a):
    t = [0]
    for x in a:
        t.append(x)
    return np.array(t)


def test_an_array_of_several_dtypes_is_refused():
    with pytest.raises(tw.TilewiseError, match="an array of a list of int or float64"):
        tw.jit(to_an_array, strict=True)(A)


def test_explain_names_the_types():
    assert "best: list of int or float64" in str(tw.explain(f.best_sums, A))
