"""Code without loops for subscripts out of range, and the code that follows where these are met."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import loop_functions as f
from tests.python.conftest import ended, same
from tilewise.api.functions.call_cache import MISSED


@pytest.fixture(scope="module")
def compiled() -> Any:
    return tw.jit(f.shifted, strict=True)


@pytest.mark.parametrize("k", [0, -1, 2, -3, 0, -9, 1, 0])
def test_calls_in_any_order_are_pythons(compiled: Any, k: int) -> None:
    for _ in range(2):  # the second one takes the short way
        ours, theirs = np.arange(1.0, 5.0), np.arange(1.0, 5.0)
        assert same(ended(compiled, (ours, k)), ended(f.shifted, (theirs, k)))
        assert same(ours, theirs)


def test_the_second_code_is_made_once_and_when_it_is_needed() -> None:
    source = tw.jit(f.shifted, strict=True)
    x = np.arange(4.0)
    source(x, 0)
    native = source._source._last.native
    assert native.whole is None
    with pytest.raises(IndexError):
        source(x, 1)
    made = native.whole
    assert made is not None
    source(x, -1)
    assert native.whole is made


def test_calls_under_other_settings() -> None:
    """Settings that code does not depend on cost one long call, not every call."""

    def total(x):
        s = 0.0
        for i in range(len(x)):
            s += x[i]
        return s

    f, x = tw.jit(total), np.arange(5.0)
    f(x)
    source = f._source
    assert source is not None and source.quick is not None and source.quick((x,)) == 10.0
    with tw.config(threads=1):
        assert source.quick((x,)) is MISSED
        assert f(x) == 10.0 and source.quick((x,)) == 10.0
        with tw.config(without="ranges"):
            assert source.quick((x,)) is MISSED and f(x) == 10.0
    assert f(x) == 10.0 and source.quick((x,)) == 10.0
