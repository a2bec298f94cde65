"""Shared by tests of loops compiled from source: a function by Python and by `tw.jit`, and what differs."""

import copy
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw

Ended = tuple[Any, ...]


def ended(f: Callable[..., Any], args: tuple[Any, ...]) -> Ended:
    """What a call gives, or the exception with the line that raised it."""
    try:
        with np.errstate(all="ignore"):
            return "returned", f(*args)
    except tw.TilewiseError:
        raise
    except Exception as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        assert at is not None
        return type(error).__name__, str(error), at.tb_lineno, at.tb_frame.f_code.co_filename


def same(x: Any, y: Any) -> bool:
    """Equal in type, dtype, shape and value; floats nearly, as sums may have another order."""
    if isinstance(x, tuple | list):
        return type(x) is type(y) and len(x) == len(y) and all(map(same, x, y))
    if type(x) is not type(y):
        return False
    if isinstance(x, dict):
        return same(list(x.items()), list(y.items()))
    if isinstance(x, np.ndarray):
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return False
        return bool(np.allclose(x, y, rtol=1e-12, equal_nan=True)) if x.dtype.kind in "fc" else bool((x == y).all())
    if isinstance(x, np.random.Generator | np.random.RandomState):
        return pickle.dumps(x) == pickle.dumps(y)
    if isinstance(x, random.Random):
        return x.getstate() == y.getstate()
    if isinstance(x, float | complex | np.inexact):
        return bool(np.isclose(x, y, rtol=1e-12, equal_nan=True))
    return bool(x == y)


@pytest.fixture(params=["native", "interpreted"])
def agree(request: pytest.FixtureRequest) -> Callable[..., Ended]:
    """Asserts that a function does the same under `tw.jit(strict=True)` as in Python, arguments included."""

    def check(f: Callable[..., Any], *args: Any) -> Ended:
        mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
        want = ended(f, theirs)
        with tw.config(native=request.param == "native"):
            compiled = tw.jit(f, strict=True)
            for _ in range(2):  # the second call takes the short way
                mine = copy.deepcopy(args)
                got = ended(compiled, mine)
                assert same(got, want), f"{got}, not {want}"
                assert same(mine, theirs), f"arguments {mine}, not {theirs}"
        return got

    return check
