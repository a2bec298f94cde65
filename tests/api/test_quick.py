"""Functions that have a quicker way for small arrays give NumPy's values, warnings and complaints."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import tilewise as tw
from tilewise.array.slots import takeover

RNG = numpy.random.default_rng(3)
LARGE = (RNG.random(50) - 0.5) * 1.7e308
OPTIONS: list[dict[str, Any]] = [
    {"axis": 0},
    {"axis": -1, "keepdims": True},
    {"axis": (0, 1)},
    {"axis": None, "keepdims": True},
    {"keepdims": False},
    {"initial": 2.0},
    {"dtype": "f4"},
    {"axis": 7},
    {"axis": 1.5},
    {"side": "left"},
]
ARRAYS = [
    RNG.random((3, 4)),
    LARGE.reshape(5, 10),
    RNG.integers(0, 9, (2, 5)),
    numpy.zeros((0, 3)),
    RNG.random((4, 6)).T,
]


def outcome(run: Callable[[], Any]) -> Any:
    """Values or a complaint, and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = numpy.asarray(run())
            result: Any = found.dtype, found.shape, found.tobytes()
        except Exception as error:
            result = type(error), str(error)
    return result, [str(w.message) for w in caught]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", "sum prod max min".split())
def test_reductions_with_options(name: str, options: dict[str, Any]) -> None:
    for a in ARRAYS:
        theirs = outcome(lambda a=a: getattr(numpy, name)(a, **options))  # type: ignore[misc]
        assert outcome(lambda a=a: getattr(tw, name)(tw.array(a), **options)) == theirs  # type: ignore[misc]


@pytest.mark.parametrize("a", [*ARRAYS, LARGE, RNG.random(9)[::2], numpy.array(-3.0), numpy.array([numpy.nan, 1.0])])
def test_norm(a: Any) -> None:
    assert outcome(lambda: tw.linalg.norm(tw.array(a))) == outcome(lambda: numpy.linalg.norm(a))
    assert outcome(lambda: tw.linalg.norm(tw.array(a), 1)) == outcome(lambda: numpy.linalg.norm(a, 1))


VECTORS = [
    RNG.standard_normal(1001),
    LARGE,
    numpy.array([-0.0]),
    numpy.array([]),
    RNG.random(100)[::2],
    RNG.random((3, 4)),
    numpy.array([numpy.inf, 1.0, -numpy.inf, 2.0]),
    RNG.random(50).astype("f4"),
    RNG.random(50).astype(">f8"),
    RNG.integers(0, 9, 30),
]


@pytest.mark.parametrize("code", [True, False])
@pytest.mark.parametrize("a", VECTORS)
def test_running_sums(a: Any, code: bool) -> None:
    """By machine code, and without."""
    before = takeover.slots().installed
    if takeover.install() != code and code:
        pytest.skip("no machine code for this interpreter")
    if not code:
        takeover.slots().remove()
    try:
        assert outcome(lambda: tw.cumsum(tw.array(a))) == outcome(lambda: numpy.cumsum(a))
        assert outcome(lambda: tw.cumsum(tw.array(a), 0)) == outcome(lambda: numpy.cumsum(a, 0))
    finally:
        takeover.slots().remove()
        if before:
            takeover.install()
