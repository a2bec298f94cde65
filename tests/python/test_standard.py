"""What users take from Python's library beside numbers: compiled, with Python's results and exceptions."""

import numpy as np
import pytest

import tilewise as tw
from tests.python import standard_functions as f
from tests.python.conftest import ended

A = np.array([3.0, -1, 2, 5, 2, 0])
WITH_NAN = np.array([2.0, np.nan, 1.0, -0.0, 0.0, np.nan, -3.0])

ROWS = [
    *[(f.from_the_front, n) for n in (0, 1, 12)],
    (f.methods, 3),
    (f.lists_of_tuples, 4),
    *[(f.failures, n) for n in range(1, 7)],
    *[(f.in_order, a) for a in (A, A[:0], A[:1], WITH_NAN, A.astype("i4"), A.astype("f4"), A > 1)],
    *[(f.tuples_in_order, n) for n in (1, 9)],
    *[(f.shortest_ways, n) for n in (1, 2, 9)],
    *[(f.heaps, n) for n in (1, 2, 10, 60)],
    (f.tuples, 5),
    (f.bisected, A),
    (f.bisected, A.astype("i8")),
    (f.products, 6),
    (f.pairs, A),
    *[(f.places, x) for x in (A.reshape(2, 3), np.asfortranarray(A.reshape(2, 3)), np.zeros((0, 3)), A.reshape(1, 6))],
    (f.no_places, 3),
    (f.no_places, 0),
    (f.complex_functions, np.array([1j, 2 + 0j, -1.5 - 1j])),
    (f.methods_of_ufuncs, A),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_functions(agree, row):
    agree(*row)


def test_lengths_below_zero():
    found, want = ended(tw.jit(f.no_places, strict=True), (-2,)), ended(f.no_places, (-2,))
    assert found[:2] == want[:2] == ("ValueError", "negative dimensions are not allowed")


def test_texts_are_printed(capsys):
    tw.jit(f.says, strict=True)(A)
    found = capsys.readouterr().out
    f.says(A)
    assert found == capsys.readouterr().out


@pytest.mark.parametrize("n", [2, 5])
def test_what_is_left_early_is_pythons(n):
    with tw.config(fallback="silent"):
        assert tw.jit(f.left_early)(n) == f.left_early(n)
    with pytest.raises(tw.TilewiseError, match="loop over several counters"):
        tw.jit(f.left_early, strict=True)(n)
