"""Index arrays of uint64: NumPy takes large ones for negative ones, or refuses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import tilewise as tw

INDEX = np.array([2**64 - 2, 1], np.uint64)
ELEMENTS = np.arange(2.0) + 1


def _write(np: Any, i: Any, x: Any) -> Any:
    x[i] = 5
    return x


def _write_column(np: Any, i: Any, x: Any) -> Any:
    x.reshape(-1, 1)[i, 0] = 5
    return x


def _write_by_itself(np: Any, i: Any, x: Any) -> Any:
    for _ in range(2):
        i.reshape(-1, 1)[i, 0] = x[-1] * -1
    return i


def _add_at(np: Any, i: Any, x: Any) -> Any:
    np.add.at(x, i, 5)
    return x


def _put(np: Any, i: Any, x: Any) -> Any:
    np.put(x, i, 5)
    return x


PROGRAMS: list[Callable[[Any, Any, Any], Any]] = [
    lambda np, i, x: x[i], lambda np, i, x: x[:, None][i, 0], lambda np, i, x: x[i - 3], lambda np, i, x: x[i[0]],
    lambda np, i, x: np.take(x, i), lambda np, i, x: np.take_along_axis(x, i, 0),
    _write, _write_column, _write_by_itself, _add_at, _put,
]  # fmt: skip


def _outcome(f: Callable[[Any, Any, Any], Any], np_: Any) -> Any:
    try:
        return np.asarray(f(np_, np_.asarray(INDEX.copy()), np_.asarray(ELEMENTS.copy()))).tolist()
    except (IndexError, TypeError, OverflowError) as error:
        return type(error), str(error)


@pytest.fixture(params=["at once", "recorded", "workers"])
def setting(request: pytest.FixtureRequest, same_settings_after_each_test: None) -> Iterator[None]:
    tw.config(fallback="silent", native=False, **({} if request.param == "at once" else {"eager_bytes": 0}))
    with tw.session(engine="virtual", workers=2) if request.param == "workers" else nullcontext():
        yield


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.usefixtures("setting")
def test_as_numpy_takes_them(f: Callable[[Any, Any, Any], Any]) -> None:
    assert _outcome(f, tw) == _outcome(f, np)
