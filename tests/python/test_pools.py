"""Lists of lists, and lists made in loops: results, aliases, exceptions and what is left after them are Python's."""

import resource

import numpy as np
import pytest

import tilewise as tw
from tests.python import pool_functions as f
from tilewise.python.containers import reclaim

A, B = np.arange(6) % 4, np.arange(8) % 3
FUNCTIONS = (
    f.longest_common, f.two_rows, f.places_change, f.kept_by_two_names, f.same_row_twice, f.repeated_rows,
    f.two_names_of_a_display, f.of_two_rows, f.reached, f.while_it_is_walked, f.of_numpys, f.by_key,
    f.rows_change_places, f.cubes, f.with_numbers_beside, f.mixed_rows, f.inner_makes, f.emptied, f.nothing_in_them,
    f.steps, f.longer_by_another, f.made_while_walked, f.sorted_again, f.many_at_once, f.keeps_one,
    f.neighbours_of_numpys, f.longer_while_it_is_walked, f.longer_by_a_function, f.joined_rows,
)  # fmt: skip
ROWS = [
    *[(g, A, B) for g in FUNCTIONS],
    *[(g, A[:2], B[:1]) for g in (f.longest_common, f.two_rows, f.repeated_rows, f.emptied, f.by_key)],
    *[(g, A.astype(float), B) for g in (f.of_numpys, f.mixed_rows)],
    *[(f.fails, A, B, k) for k in range(7)],
    *[(f.too_long, A, B, n) for n in (-3, 5, 2**62)],
    *[(f.choices, A, B, k) for k in (-1, 1, 2)],
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_functions(agree, row):
    agree(*row)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_functions_whose_arenas_are_packed_before_each_statement(monkeypatch, agree, row):
    monkeypatch.setattr(reclaim, "FEWEST", 0)
    monkeypatch.setattr(reclaim, "GROWTH", 0)
    agree(*row)


def test_memory_of_lists_that_nobody_has_is_used_again():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert tw.jit(f.rows_one_by_one, strict=True)(200_000, 500) == (200_000, [200_000] * 500)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300 << 10  # KiB, of 800 MB that all rows have


def identities(found):
    """Which lists of a result are the same, by the order in which they are met."""
    known, out = {}, []

    def walk(x):
        if isinstance(x, list | tuple | dict):
            out.append(known.setdefault(id(x), len(known)) if not isinstance(x, tuple) else "tuple")
            for y in x.values() if isinstance(x, dict) else x:
                walk(y)

    walk(found)
    return out


@pytest.mark.parametrize(
    "g",
    [f.kept_by_two_names, f.same_row_twice, f.repeated_rows, f.of_two_rows, f.cubes, f.rows_change_places, f.by_key],
)
def test_lists_of_a_result_are_the_same_where_pythons_are(g):
    assert identities(tw.jit(g, strict=True)(A, B)) == identities(g(A, B))
