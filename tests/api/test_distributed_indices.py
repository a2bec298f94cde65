"""Indices and values that workers get: which are in order, which are out of range, which do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw

MESHES = [{"workers": 2}, {"workers": 4}, {"mesh": (2, 2)}]


@pytest.mark.parametrize("objective", ["time", "bytes"])
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_counting_backwards_is_not_counting(mesh: Any, objective: Any) -> None:
    b, columns = np.arange(400.0).reshape(10, 40), np.arange(10) * 3
    with tw.config(eager_bytes=0, fallback="silent", objective=objective), tw.session(engine="virtual", **mesh):
        for axis in (0, 1):
            x = tw.evaluate((tw.asarray(b) * 1).relayout(axis))
            back = tw.arange(10)[::-1]
            assert np.array_equal(x[back, x.argmax(1)], b[::-1].max(1))
            assert np.array_equal(x[back, tw.asarray(columns)], b[np.arange(10)[::-1], columns])
            assert np.array_equal(x[back], b[::-1])


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_indices_that_are_pending_stay_in_the_view(mesh: Any) -> None:
    c = np.arange(12).reshape(6, 2)
    with tw.config(eager_bytes=0, fallback="silent"), tw.session(engine="virtual", **mesh):
        x = tw.asarray(c)

        def at(*values: int) -> Any:
            return tw.asarray(np.array(values)) + 0

        assert np.array_equal(x[1:4][at(2, -3)], c[1:4][[2, -3]])
        for view, index in ((x[2:4], at(3)), (x[:3], at(4)), (x[1:], at(-6)), (x[::-1], at(6))):
            with pytest.raises(IndexError):
                np.asarray(view[index])
        with pytest.raises(IndexError):
            np.asarray(x[2:4][at(2, 3), at(0, 1)])


def test_what_does_not_fit_is_refused() -> None:
    with tw.config(eager_bytes=0, fallback="silent"), tw.session(engine="virtual", workers=2):
        for put in (tw.place, tw.putmask):
            a = tw.asarray(np.zeros(4, "i1"))
            with pytest.raises(TypeError):
                put(a, tw.asarray(np.array([True, False, True, False])), tw.asarray(np.array([300], "i4")))


@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_quantiles_of_nothing_but_nan() -> None:
    nothing = np.full(6, np.nan, "f4")
    with tw.config(eager_bytes=0, fallback="silent"), tw.session(engine="virtual", workers=2):
        assert np.isnan(tw.nanquantile(tw.asarray(nothing), [0.1, 0.9])).all()


def test_passes_on_tiles_keep_nothing_where_blocks_are_empty() -> None:
    a = np.arange(6000.0).reshape(2, 3000)
    with tw.config(eager_bytes=0, blocks=3), tw.session(engine="virtual", workers=3):
        y = (tw.asarray(a) + 1).T + 1
        plan = tw.explain(y)
        with tw.profile() as seen:
            y.compute()
        assert seen.worker_peak_bytes <= plan.memory_bytes == 96_000
