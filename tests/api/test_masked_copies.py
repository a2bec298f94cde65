"""Copies of what a mask selects: their memory order, before anybody knows how long they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw

VIEWS: dict[str, Any] = {"whole": lambda y: y, "transposed": lambda y: y.T, "reversed": lambda y: y[::-1]}
COPIES: dict[str, Any] = {
    "copy": lambda np, y, order: y.copy(order=order),
    "np.copy": lambda np, y, order: np.copy(y, order=order),
    "array": lambda np, y, order: np.array(y, order=order),
    "astype": lambda np, y, order: y.astype("float32", order=order),
    "asarray": lambda np, y, order: np.asarray(y, order=order),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("order", "CFAK")
def test_order_of_copies(how: str, view: str, order: str) -> None:
    for shape in ((4, 3), (5, 3, 2)):
        for lies in "CF":
            data = np.asarray(np.arange(float(np.prod(shape))).reshape(shape), order=lies)  # type: ignore[arg-type]
            mask = np.arange(shape[0]) != 1
            want = COPIES[how](np, VIEWS[view](data[mask]), order)
            with tw.config(eager_bytes=0):
                got = np.asarray(COPIES[how](tw, VIEWS[view](tw.asarray(data)[tw.asarray(mask)]), order))
            np.testing.assert_array_equal(got, want)
            assert got.strides == want.strides


@pytest.mark.parametrize("order", ["f", "c", "a", "k", None, "Z", 3])
def test_orders_as_numpy_reads_them(order: Any) -> None:
    data = np.arange(12.0).reshape(4, 3)
    mask = np.arange(4) != 1
    with tw.config(eager_bytes=0):
        for pick in (lambda x, m: x, lambda x, m: x[m]):
            try:
                want = pick(data, mask).copy(order=order)
            except (TypeError, ValueError) as error:
                with pytest.raises(type(error)):
                    pick(tw.asarray(data), tw.asarray(mask)).copy(order=order)
            else:
                got = np.asarray(pick(tw.asarray(data), tw.asarray(mask)).copy(order=order))
                assert got.strides == want.strides and np.array_equal(got, want)
