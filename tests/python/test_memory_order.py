"""Views and copies of new arrays are those that NumPy gives, whatever the order of arguments in memory."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import order_functions as f
from tests.python.conftest import ended, same

NAMES = [n for n in vars(f) if n.islower() and callable(getattr(f, n)) and not n.startswith("_") and n != "np"]
ARRAYS = {
    "C": lambda: np.arange(6.0).reshape(2, 3) / 4,
    "Fortran": lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3) / 4),
    "turned": lambda: (np.arange(6.0).reshape(3, 2) / 4).T,
    "strided": lambda: (np.arange(24.0).reshape(4, 6) / 4)[::2, ::2],
    "one row": lambda: np.ones((1, 3)),
}


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("name", NAMES)
def test_results_and_arguments_are_pythons(name: str, array: str) -> None:
    function, a, b = getattr(f, name), ARRAYS[array](), ARRAYS[array]()
    with tw.config(fallback="silent"):
        assert same(ended(tw.jit(function), (a,)), ended(function, (b,)))
    assert same(a, b)


@pytest.mark.parametrize("name", ["like_its_argument", "of_its_argument", "by_a_choice", "copied_first"])
def test_arrays_in_c_order_compile(name: str) -> None:
    tw.jit(getattr(f, name), strict=True)(ARRAYS["C"]())


@pytest.mark.parametrize("name", ["writes_through_a_turned_copy", "asks_for_an_order"])
def test_the_refusal_says_what_to_do(name: str) -> None:
    with pytest.raises(tw.FunctionError, match="another order than compiled loops do"):
        tw.jit(getattr(f, name), strict=True)(ARRAYS["C"]())


def test_names_of_generators_may_be_the_functions(agree: Any) -> None:
    for function in (f_sum, f_list, f_dict, f_nested):
        assert agree(function, np.arange(5.0))[0] == "returned"


def f_sum(x):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total + sum(x[i] * 2 for i in range(3)), i


def f_list(x):  # type: ignore[no-untyped-def]
    i = 2
    found = [i * v for i in range(i + 1) for v in x]
    return len(found), found[3], i


def f_dict(x):  # type: ignore[no-untyped-def]
    for i in range(2):
        x[i] += 1
    found = {i: x[i] for i in range(3)}
    return found[2], i


def f_nested(x):  # type: ignore[no-untyped-def]
    i = len(x)
    return sum([sum([i for i in range(i)]) for i in range(i)]), i
