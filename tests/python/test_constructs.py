"""Every construct that loops are compiled from, against plain Python: values, types, arguments, exceptions."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import loop_functions as f
from tests.python.conftest import ended, same

A = np.arange(12.0).reshape(3, 4)
V = np.array([3.0, -1.0, 2.5, np.nan, -0.0, np.inf])
I = np.array([5, -2, 7, 0, 3])

ROWS: list[tuple[Any, ...]] = [
    (f.ranges, 0),
    (f.ranges, 1),
    (f.ranges, 9),
    (f.element_updates, A, 2.0),
    (f.element_updates, np.zeros((0, 3)), 1.0),
    (f.element_updates, A.T, 3),
    (f.starts_as_int, V),
    (f.starts_as_int, np.zeros(0)),
    (f.starts_as_int, I),
    (f.while_loop, 27),
    (f.while_loop, 1),
    (f.leaves_early, I),
    (f.leaves_early, I[:2]),
    (f.unbound, np.array([1.0, 200.0])),
    (f.unbound, V),
    (f.after_empty_loop, 0),
    (f.after_empty_loop, 3),
    (f.slices, np.arange(7.0), 3),
    (f.slices, np.arange(2.0), 2),
    (f.slices, np.arange(14.0)[::2], 4),
    (f.overlapping, np.arange(6.0)),
    (f.overlapping, np.arange(1.0)),
    (f.dots, A[:, :3] + 9),
    (f.reductions, A),
    (f.calls, V[:3]),
    (f.nested_functions, V[:3], 1.5),
    (f.several_types, V[:3]),
    (f.several_types, -np.ones(2)),
    (f.call_of_several_types, I),
    (f.python_integers, 12),
    (f.python_integers, 30),
    (f.numpy_integers, I),
    (f.small_integers, 9),
    (f.bits, 0b1011010),
    (f.counted_ones, np.array([3, 0, 1 << 40, 0b1111]), np.array([-9, 5, 0, -1]), 1023),
    (f.counted_ones, np.array([3, 31]), np.array([-(1 << 63), (1 << 63) - 1]), -7),
    (f.counted_ones, np.array([0, 1 << 63], np.uint64), np.array([-128, 127], np.int8), 1),
    (f.mathematics, 1.25),
    (f.complex_numbers, 30),
    (f.chains, I),
    (f.guarded, V[:3]),
    (f.tuples, I),
    (f.comprehensions, I),
    (f.masks, V[:3]),
    (f.gathers, V, I[3:]),
    (f.allocations, 4),
    (f.globals_and_tables, np.zeros(5)),
    (f.walrus, np.array([2, 1, 0, 5])),
    (f.complex_first, V[:3]),
    (f.tuples_turned, 0),
    (f.tuples_turned, 3),
    (f.tuples_of_several_types_turned, 2),
    (f.tuples_of_several_types_turned, 3),
    (f.tuples_of_arrays_turned, A[0], A[1], 3),
    (f.tuple_argument_turned, (1.0, (2.0, 3)), 3),
    (f.tuples_turned_by_walrus, V[:3]),
    (f.tuples_turned_in_a_function, 3),
    (f.walrus_of_an_array, V[:3]),
    (f.known_choices, I, None, (7, 8.0)),
    (f.known_choices, I, (), ()),
    (f.choice_of_an_array, np.array(2.0), 2),
    (f.conditions_of_no_numbers, I, None, (7, 8.0)),
    (f.conditions_of_no_numbers, I, (), ()),
    (f.choices_of_tuples, V[:3]),
    (f.extremes_of_tuples, V[:3]),
    (f.extremes_of_tuples, I),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_same_as_python(agree: Any, row: tuple[Any, ...]) -> None:
    agree(*row)


EXCEPTIONS: list[tuple[Any, ...]] = [
    (f.divides, np.zeros(5), 3),
    (f.modulo, np.zeros(5, int), 2),
    (f.out_of_range, I),
    (f.row_out_of_range, A),
    (f.raises, np.zeros(4)),
    (f.asserts, I),
    (f.square_root, np.array([4.0, -1.0])),
    (f.into_integers, np.zeros(3, np.int64), np.array([1.5, -2.5, np.inf])),
    (f.into_integers, np.zeros(3, np.int8), np.array([1.5, 300.0, 2.0])),
    (f.evaluated_before_it_is_converted, np.zeros(2, np.uint8), 1000),
    (f.shapes, np.zeros(4), np.zeros(2)),
]


@pytest.mark.parametrize("row", EXCEPTIONS, ids=lambda r: r[0].__name__)
def test_exceptions_have_the_line_and_leave_arrays_as_python_does(agree: Any, row: tuple[Any, ...]) -> None:
    assert agree(*row)[0] != "returned"


BEYOND = [4, -5, 99, -99, -(2**63), 2**63 - 1]


@pytest.mark.parametrize("agree", ["native"], indirect=True)
def test_several_subscripts_of_an_element_are_checked_in_order(agree: Any) -> None:
    good = np.array([0, 3, -1, -4])
    table = np.zeros((2, 4, 4))
    assert agree(f.counted_cells, table, good, good[::-1].copy())[0] == "returned"
    for wrong in BEYOND:
        with_wrong, again = np.append(good, wrong), np.append(good, -1)
        for a, b in ((with_wrong, again), (again, with_wrong), (with_wrong, with_wrong[::-1].copy())):
            assert agree(f.counted_cells, table, a, b)[0] == "IndexError"


NOT_NUMBERS: list[tuple[Any, ...]] = [
    (f.greatest, None),
    (f.greatest, (1, 2)),
    (f.absolute, None),
    (f.absolute, (1, 2)),
    (f.root, None),
    (f.root, (4,)),
    (f.negated, None),
    (f.negated, (1, 2)),
    (f.either, (3, 4)),
    (f.either, None),
    (f.compared_with_tuples, (3.0, 1)),
    (f.contained, (1, 2)),
    (f.listed, 1.0),
]


@pytest.mark.parametrize("row", NOT_NUMBERS, ids=lambda r: f"{r[0].__name__} {r[1]}")
def test_what_is_no_number_is_left_to_python(row: tuple[Any, ...]) -> None:
    function, x = row
    a = np.array([3.0, 0.0, 2.0])
    with tw.config(fallback="silent"):
        for _ in range(2):
            assert same(ended(tw.jit(function), (a, x)), ended(function, (a, x)))


def test_an_integer_beyond_64_bits_after_a_write_is_an_error() -> None:
    a = np.zeros(9)
    with pytest.raises(OverflowError, match="64 bits"):
        tw.jit(f.overflows_after_a_write)(a, 10)
    assert a.sum() == 5  # 10 ** 32 does not fit: as far as Python would have come, and no further
