"""Numbers that an array of integers has no room for: parallel loops raise, or give, what the plain loop does."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tilewise as tw


def elements(x: Any, out: Any, mode: Any) -> None:
    for i in tw.parfor(range(len(x)), mode=mode, workers=2):
        out[i] = x[i] * 1


def rows(x: Any, out: Any, mode: Any) -> None:
    for i in tw.parfor(range(len(x)), mode=mode, workers=2):
        out[i, :] = x[i] * 1


def _ran(function: Any, x: Any, dtype: Any, mode: Any) -> tuple[str, Any]:
    out = np.zeros(x.shape, dtype)
    try:
        function(x, out, mode)
    except (ValueError, OverflowError) as error:
        return f"{type(error).__name__}: {error}", None  # nothing is merged then
    return "", out.tolist()


@pytest.fixture(autouse=True)
def _all_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = importlib.import_module("tilewise.parfor.bodies.choose")
    monkeypatch.setattr(choose, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(choose, "FASTER", 0.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300, -1.0, 300.0, 2.0**63, -(2.0**31) - 1])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.filterwarnings("ignore")
def test_one_number_too_large(bad: float, dtype: Any) -> None:
    x = np.arange(400.0) % 100
    x[7] = bad
    for function, given in ((elements, x), (rows, x.reshape(-1, 4))):
        for mode in (None, "processes"):
            parallel = tw.parallel(function)
            assert _ran(parallel, given, dtype, mode) == _ran(function, given, dtype, mode)


def test_arrays_of_numbers_that_fit_stay_array_expressions() -> None:
    x = np.arange(400.0) % 100
    parallel = tw.parallel(elements)
    assert _ran(parallel, x, np.int32, None) == _ran(elements, x, np.int32, None)
    assert parallel.report[0].body == "arrays"


def test_integers_that_do_not_fit() -> None:
    x = np.arange(400)
    for function, given in ((elements, x), (rows, x.reshape(-1, 4))):
        assert _ran(tw.parallel(function), given, np.uint8, None) == _ran(function, given, np.uint8, None)
