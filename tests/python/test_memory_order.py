"""Views and copies of new arrays are those that NumPy gives, whatever the order of arguments in memory."""

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
    with pytest.raises(tw.FunctionError, match=r"another order than .*Copy it with \.copy\(\) first"):
        tw.jit(getattr(f, name), strict=True)(ARRAYS["C"]())
