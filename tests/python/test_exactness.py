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
