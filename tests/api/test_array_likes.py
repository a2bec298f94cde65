"""Objects of a program's own class whose `__array__` gives an Array are taken wherever NumPy takes such objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import tilewise as tw


class Like:
    """As a program has it, with either module as `np`."""

    def __init__(self, np: Any) -> None:
        self.np = np

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.np.arange(3)


def _written(np: Any, x: Any, a: Any) -> Any:
    x[:] = a
    return x


def _added(np: Any, x: Any, a: Any) -> Any:
    x += a
    return x


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "asarray": lambda np, x, a: np.asarray(a),
    "array of a dtype": lambda np, x, a: np.array(a, dtype="f4"),
    "array of a list": lambda np, x, a: np.array([a, a]),
    "unary": lambda np, x, a: np.sin(a),
    "binary": lambda np, x, a: np.add(a, 1),
    "binary with an array": lambda np, x, a: np.maximum(x, a),
    "operator": lambda np, x, a: x + a,
    "operator on the right": lambda np, x, a: a - x,
    "comparison": lambda np, x, a: x < a,
    "in place": _added,
    "written": _written,
    "product": lambda np, x, a: x @ a,
    "dot": lambda np, x, a: np.dot(a, x),
    "sum": lambda np, x, a: np.sum(a),
    "reduce": lambda np, x, a: np.add.reduce(a),
    "outer": lambda np, x, a: np.add.outer(a, a),
    "concatenate": lambda np, x, a: np.concatenate([x, a]),
    "stack": lambda np, x, a: np.stack([a, x]),
    "where": lambda np, x, a: np.where(a, x, 7),
    "sort": lambda np, x, a: np.sort(a),
    "index": lambda np, x, a: x[a],
    "zeros like": lambda np, x, a: np.zeros_like(a),
    "median": lambda np, x, a: np.median(a),
    "shape": lambda np, x, a: np.shape(a),
}


@pytest.mark.parametrize("eager_bytes", [0, 100_000])
@pytest.mark.parametrize("name", CALLS)
def test_objects_that_give_arrays(name: str, eager_bytes: int) -> None:
    with tw.config(eager_bytes=eager_bytes):
        found = numpy.asarray(CALLS[name](tw, tw.ones(3), Like(tw)))
    want = numpy.asarray(CALLS[name](numpy, numpy.ones(3), Like(numpy)))
    assert found.dtype == want.dtype
    numpy.testing.assert_array_equal(found, want)


def test_other_complaints_stay_what_they_are() -> None:
    class Wrong:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return [1, 2]

    for call in (tw.sin, tw.asarray, tw.sum, tw.sort):
        with pytest.raises(ValueError, match="not producing an array"):
            call(Wrong())


def test_results_in_the_class_of_an_argument() -> None:
    x, made = tw.ones(3), numpy.arange(3.0)
    assert type(x.__array_wrap__(made)) is tw.ndarray
    numpy.testing.assert_array_equal(x.__array_wrap__(made), made)
    assert isinstance(x.__array_wrap__(numpy.array(2.0), None, True), numpy.float64)


def test_ufuncs_that_a_class_looks_up() -> None:
    """It is handed NumPy's ufunc, whichever module was asked."""

    class Length:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            if ufunc == tw.multiply:
                return "product"
            return {tw.add: Length, tw.less: bool}.get(ufunc, NotImplemented)

    a = Length(3.0)
    for np in (tw, numpy):
        assert np.multiply(a, 2) == "product"
        assert np.add(a, a) is Length
        assert np.less(np.ones(3), a) is bool
        with pytest.raises(TypeError):
            np.sin(a)
    assert isinstance(numpy.add, tw.ufunc)
    assert isinstance(tw.add, tw.ufunc)
    assert not isinstance(tw.sum, tw.ufunc)
    assert tw.add != numpy.multiply
    assert tw.add != tw.multiply
