"""Arrays in other shapes and orders of axes: views where NumPy makes views, copies where it copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import shape_functions as f
from tilewise.backend.llvm.program import host

Y = np.arange(96.0)


@pytest.mark.parametrize(("a", "b", "n"), [(4, 12, 7), (3, 16, 5), (24, 2, 1), (2, 24, 3)])
def test_reshaped_in_loops(agree: Any, a: int, b: int, n: int) -> None:
    assert agree(f.reshaped_in_a_loop, Y, a, b, n)[0] == "returned"
    agree(f.reshaped_in_a_loop, Y.astype(np.complex64), a, b, n)


@pytest.mark.parametrize(("a", "b"), [(5, 12), (0, 3), (-1, -1), (-2, 6), (2**40, 2**40), (2**31, 2**33), (-48, -1)])
def test_lengths_that_do_not_fit(agree: Any, a: int, b: int) -> None:
    agree(f.reshaped_in_a_loop, Y, a, b, 1)


def test_shapes_of_other_memory(agree: Any) -> None:
    for y in (Y[::2], Y.reshape(8, 12).T, Y.reshape(8, 12)[:, 3:7], Y.reshape(8, 12)[2:4], Y[:0].reshape(0, 4)):
        agree(f.shapes_in_turn, y, np.array([(2, y.size // 2), (y.size // 2, 2), (y.size, 1)]))
        agree(f.chained_shapes, y, 3)
    agree(f.shapes_in_turn, Y, np.array([(2, 48), (7, 13), (3, 32)]))


def test_axes_change_places(agree: Any) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    agree(f.axes_in_other_orders, a, 3)
    agree(f.axes_in_other_orders, a.astype(np.int16), 2)
    assert [x.strides for x in tw.jit(f.axes_in_other_orders)(a.copy(), 2)[1:]] == [
        x.strides for x in f.axes_in_other_orders(a.copy(), 2)[1:]
    ]
    with pytest.raises(ValueError, match="repeated axis"):
        tw.jit(f.no_such_axes)(a, 1)


def test_results_show_the_argument() -> None:
    y = Y.copy()
    _, w, z, q, v = tw.jit(f.reshaped_in_a_loop, strict=True)(y, 4, 12, 2)
    assert np.shares_memory(w, y) and np.shares_memory(v, y)
    assert not np.shares_memory(z, y) and not np.shares_memory(q, y)


@pytest.mark.parametrize("dtype", [float, np.float32, int, complex])
def test_dots_with_a_number_for_each_axis(agree: Any, dtype: Any) -> None:
    assert agree(f.without_axes, np.arange(6).astype(dtype))[0] == "returned"
    a, shown, new, *_ = tw.jit(f.without_axes, strict=True)(np.arange(6).astype(dtype))
    assert type(shown) is np.ndarray and np.shares_memory(shown, a) and type(new) is np.dtype(dtype).type


def test_python_is_not_called_for_another_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    run = host.Table._run

    def counted(self: Any, which: int, room: int) -> int:
        calls.append(which)
        return run(self, which, room)

    monkeypatch.setattr(host.Table, "_run", counted)
    shapes = tw.jit(f.chained_shapes, strict=True)
    assert shapes(np.arange(8.0), 50).tolist() == f.chained_shapes(np.arange(8.0), 50).tolist()
    assert not calls
    shapes(np.arange(16.0).reshape(2, 8)[:, :4], 50)
    assert len(calls) == 2  # has gaps: the first is a view of it, the second a copy
