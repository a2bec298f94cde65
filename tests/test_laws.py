"""Kasen's laws, each as a property: F may take partial operands if F(R(a, b)) = R(F(a), F(b))."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewise.ir.scalar import LAWS, UFUNCS

ROWS = [(f, op, how) for f, laws in LAWS.items() for op, how in laws.items()]
SMALL = st.integers(-8, 8)


def _values(f: str, op: str, draw: list[int]) -> list[np.generic]:
    if "logical" in f:
        return [np.bool_(v % 2) for v in draw]
    if "bitwise" in f:
        return [np.int64(v) for v in draw]
    return [np.float64(v) for v in draw]


@pytest.mark.parametrize(("f", "op", "how"), ROWS)
@given(draw=st.lists(SMALL, min_size=4, max_size=4))
def test_law(f: str, op: str, how: str, draw: list[int]) -> None:
    function, reduce = UFUNCS[f], UFUNCS[op]
    a0, a1, b0, b1 = _values(f, op, draw)
    if how == "together":
        if function.nin == 1:
            assert function(reduce(a0, a1)) == reduce(function(a0), function(a1))
        else:
            whole = function(reduce(a0, a1), reduce(b0, b1))
            assert whole == reduce(function(a0, b0), function(a1, b1))
    elif how == "one":  # used for whole numbers only: a part that is zero times inf is not zero
        a0, a1, b0 = (np.int64(v) for v in (a0, a1, b0))
        assert reduce(function(a0, b0), function(a1, b0)) == function(reduce(a0, a1), b0)
        assert reduce(function(b0, a0), function(b0, a1)) == function(b0, reduce(a0, a1))
    else:
        raise AssertionError(how)
