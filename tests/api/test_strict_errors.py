"""Under an errstate that raises, work is done at once by NumPy, whatever its size, and raises where the user is."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import tilewise as tw

PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "subtract": lambda np, x, y: x - x,
    "cast": lambda np, x, y: x.astype(int),
    "sum": lambda np, x, y: x.sum(),
    "mean along an axis": lambda np, x, y: x.mean(0),
    "var": lambda np, x, y: np.var(x),
    "cumsum": lambda np, x, y: x.cumsum(),
    "dot": lambda np, x, y: np.dot(x.ravel(), y.ravel()),
    "product": lambda np, x, y: x @ y.T,
    "tensordot": lambda np, x, y: np.tensordot(x, y, 2),
    "into an array": lambda np, x, y: np.sum(x, 0, out=np.empty(30)),
    "product into an array": lambda np, x, y: np.matmul(x, y.T, out=np.empty((20, 20))),
    "product in place": lambda np, x, y: operator.imatmul(x, np.ones((30, 30))),
    "ufunc.reduce": lambda np, x, y: np.add.reduce(x),
    "ufunc.accumulate": lambda np, x, y: np.add.accumulate(x),
    "ufunc.reduceat": lambda np, x, y: np.add.reduceat(x, [0, 1, 2]),
    "in place": lambda np, x, y: operator.isub(x, x),
    "in place, a copy": lambda np, x, y: operator.isub(x.copy(), x),
    "in place, into a row": lambda np, x, y: operator.isub(x[0], -x[1]),
    "in place by a number": lambda np, x, y: operator.itruediv(x.copy(), 0.0),
    "pending": lambda np, x, y: (x - x).sum(),
    "views": lambda np, x, y: x.T[::-1].reshape(-1)[3:],
    "no mistake": lambda np, x, y: np.maximum(y, 2.0).sum(0),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("eager_bytes", [0, 1 << 20])
def test_as_numpy(name: str, eager_bytes: int) -> None:
    x = numpy.ones((20, 30))
    x[0, 5], x[1, 5] = numpy.inf, -numpy.inf
    y = numpy.ones((20, 30))

    def told(np: Any, x: Any, y: Any) -> Any:
        try:
            with numpy.errstate(all="raise"):
                made = PROGRAMS[name](np, x, y)
            return numpy.asarray(made).tolist()
        except FloatingPointError as error:
            return str(error)

    with tw.config(eager_bytes=eager_bytes):
        assert told(tw, tw.asarray(x) * 1, tw.asarray(y) * 1) == told(numpy, x, y)
