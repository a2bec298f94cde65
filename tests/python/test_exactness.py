"""What compiled loops do where numbers and subscripts are at their limits, against plain Python."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import exact_functions as f
from tests.python.conftest import ended, same

A = np.arange(12.0).reshape(3, 4)


def test_lists_are_subscripts_of_several_elements(agree: Any) -> None:
    agree(f.lists_as_subscripts, A)
    agree(f.writes_by_lists, A)
    assert agree(f.lists_out_of_range, A)[0] == "IndexError"


@pytest.mark.parametrize("function", [f.list_by_a_list])
def test_what_python_refuses_is_left_to_it(function: Any) -> None:
    with tw.config(fallback="silent"):
        assert same(ended(tw.jit(function), (A,)), ended(function, (A,)))


WIDE = np.array([5, 100, -7, 300])
TARGETS = ["int8", "int16", "int32", "int64", "uint8", "uint64"]


@pytest.mark.parametrize("source", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_integers_of_numpy_that_do_not_fit_an_element(agree: Any, source: str) -> None:
    b = np.append(WIDE.astype(source), np.array(np.iinfo(source).max, source))
    ends = {agree(f.into_elements, np.zeros(5, to), b)[0] for to in TARGETS}
    assert ends == ({"returned"} if source == "int8" else {"returned", "OverflowError"})


def test_where_integers_of_numpy_wrap_and_where_they_raise(agree: Any) -> None:
    a = np.ones(4, np.int8)
    assert agree(f.added_to_elements, a, WIDE)[0] == "OverflowError"
    assert agree(f.one_number_into_a_slice, a, WIDE)[0] == "OverflowError"
    assert agree(f.wrapped, a, WIDE)[0] == "returned"


NUMBERS = [0, 3, -3, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63), 2**63 - 513, 2**63 - 512]
FLOATS = [0.5, 3.0, 2.0**53, -(2.0**53), 2.0**62, 2.0**63, -(2.0**63), 2.0**64, np.inf, -np.inf, np.nan]


def test_integers_and_floats_are_compared_exactly(agree: Any) -> None:
    out = np.zeros((len(NUMBERS), len(FLOATS), 20), bool)
    agree(f.compared_with_floats, out, np.array(NUMBERS), np.array(FLOATS))
    for n, x in [(2**53 + 1, 2.0**53), (2**63 - 1, 2.0**63), (-(2**53) - 1, -(2.0**53))]:
        agree(f.compared_with_floats, out, np.array([n]), np.array([x]))


def test_the_least_integer_by_minus_one(agree: Any) -> None:
    least = -(2**63)
    one = np.zeros(1, int)
    agree(f.divided_by_minus_one, np.array([7, -7, least]), np.array([-1, 2, 3]), np.zeros(3, int))
    assert agree(f.divided_by_minus_one, np.array([least]), np.array([-1]), one)[0] == "returned"
    assert agree(f.divided_by_minus_one, np.array([5, least]), np.array([5, 0]), np.zeros(2, int))[0] != "returned"
    with pytest.raises(OverflowError, match="64 bits"):
        tw.jit(f.divided_by_minus_one)(np.array([5, least]), np.array([5, -1]), np.zeros(2, int))


def test_vectorized_loops_compare_exactly() -> None:
    numbers = np.tile(NUMBERS, 50)
    assert same(
        np.asarray(tw.vectorize(f.greater_than_a_float)(numbers)), np.vectorize(f.greater_than_a_float)(numbers)
    )


def itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    memory = np.zeros(500_000)
    return np.lib.stride_tricks.as_strided(memory[250_000:], shape, tuple(8 * s for s in strides))


@pytest.mark.parametrize("strides", [(0, 1), (1, 1), (-1, 3), (7, 0), (399, 1), (400, 1), (1, 500), (-400, -1)])
def test_arrays_that_overlap_themselves_are_written_as_by_python(strides: tuple[int, ...]) -> None:
    a, b = itself((100, 400), strides), itself((100, 400), strides)
    f.counts_up(a)
    with tw.config(fallback="silent"):
        compiled = tw.jit(f.counts_up)
        for _ in range(2):
            b[:] = 0
            compiled(b)
            assert (a == b).all()
        row, other = itself((500,), strides[:1]), itself((500,), strides[:1])
        f.adds_to_itself(row)
        tw.jit(f.adds_to_itself)(other)
        assert (row == other).all()


def test_what_a_function_of_numbers_raises_is_raised(agree: Any) -> None:
    assert agree(f.first_of_a_list, 3)[0] == "returned"
    assert agree(f.first_of_a_list, 0)[:2] == ("IndexError", "list assignment index out of range")


@pytest.mark.parametrize("to", ["uint8", "int64", "float64"])
def test_choices_keep_their_values_until_they_are_stored(agree: Any, to: str) -> None:
    for b in (np.array([0.05, 3.0], np.float32), np.array([5, 77])):
        for n in (50, 300, 2**53 + 1):
            agree(f.choices_into_elements, np.zeros((2, 4), to), b, n, 3.5)


def test_a_choice_of_two_names_that_have_no_value(agree: Any) -> None:
    ends = [agree(f.unbound_in_both_choices, np.zeros(2), k)[0] for k in (0, 3, 9)]
    assert ends == ["UnboundLocalError", "UnboundLocalError", "returned"]


@pytest.mark.parametrize(
    "name", ["a_function_inside", "what_is_gone_over_first", "what_is_gone_over_next", "a_sum", "a_list"]
)
def test_names_without_a_value_are_local_or_free_as_in_python(agree: Any, name: str) -> None:
    assert agree(getattr(f, f"unbound_in_{name}"), np.ones(2))[0] in ("UnboundLocalError", "NameError")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_limits_of_dtypes_are_known(agree: Any, dtype: str) -> None:
    assert agree(f.machine_limits, np.ones(3, dtype))[0] == "returned"
    with np.errstate(over="ignore"):
        assert agree(f.hash_of_64_bits, np.ones(9))[0] == "returned"


def test_a_power_of_one_half_is_the_root() -> None:
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 5e-324]
    x = np.concatenate([np.random.default_rng(0).random(500) * 9, ends])
    with np.errstate(invalid="ignore"):
        y, want = x.copy(), np.sqrt(np.where(x == -np.inf, np.inf, np.where(x == 0, 0.0, x)))
        tw.jit(f.roots_by_power, strict=True)(y)
    np.testing.assert_array_equal(y, want)
    assert not np.signbit(y[-6])


@pytest.mark.parametrize("where", ["sum", "list", "dict", "nested"])
def test_names_of_generators_may_be_the_functions(agree: Any, where: str) -> None:
    assert agree(getattr(f, f"generator_named_as_the_function_in_a_{where}"), np.arange(5.0))[0] == "returned"
