"""Pinned layouts: where arrays then are, values, errors at the user's line, and writes that change nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.layout import Grid, Replicate, Shard

DATA = np.arange(24.0).reshape(4, 6)


@pytest.fixture(autouse=True)
def recorded() -> Any:
    with tw.config(eager_bytes=0):
        yield


def test_arrays_are_where_they_were_put() -> None:
    with tw.session(engine="virtual", mesh=(2, 2)):
        x = tw.asarray(DATA).relayout(0, 1)
        y = (x + 1).relayout("columns")
        z = (y * 2).relayout(None)
        w = (z - 1).relayout(rows=4)
        tw.evaluate(x, y, z, w)
        assert isinstance(x.layout, Grid)
        assert isinstance(y.layout, Shard) and y.layout.axis == 1
        assert z.layout == Replicate()
        assert isinstance(w.layout, Shard) and w.layout.axis == 0
        np.testing.assert_array_equal(np.asarray(w), (DATA + 1) * 2 - 1)


@pytest.mark.parametrize("blocks", [1, 3])
def test_the_solver_works_around_a_pin(blocks: int) -> None:
    with tw.config(blocks=blocks), tw.session(engine="virtual", workers=3) as session:
        a = tw.asarray(DATA).relayout(1)
        got = (a.T @ a).sum(0).relayout(0)
        np.testing.assert_allclose(np.asarray(got), (DATA.T @ DATA).sum(0))
        assert session.cluster.counters.network_bytes == session.cluster.counters.predicted_bytes


def test_a_plan_without_a_session_keeps_pins() -> None:
    x = tw.ones((100, 50)) * 2
    plan = tw.explain(x.relayout(1) + 1, workers=4)
    pinned = dict(plan.layouts)["relayout(1)"]
    assert isinstance(pinned, Shard) and pinned.axis == 1


def test_without_workers_a_pin_is_a_copy_on_write() -> None:
    x = tw.asarray(DATA) * 1
    y = x.relayout(0)
    y[0] = -1
    np.testing.assert_array_equal(np.asarray(x), DATA)
    assert float(y[0].sum()) == -6
    z = tw.asarray(DATA).relayout(1)
    x2 = z + 1
    z += 1
    np.testing.assert_array_equal(np.asarray(x2), np.asarray(z))


@pytest.mark.parametrize(
    ("args", "named", "error", "words"),
    [
        ((0, 0), {}, tw.LayoutError, "both directions"),
        ((5,), {}, np.exceptions.AxisError, "axis 5"),
        ((), {}, tw.LayoutError, "one axis or two"),
        ((0, 1, 0), {}, tw.LayoutError, "one axis or two"),
        (("diagonal",), {}, tw.LayoutError, "'rows' or 'columns'"),
        ((), {"rows": 3}, tw.LayoutError, "cannot be cut into 3 parts"),
        ((True,), {}, tw.LayoutError, "an axis is a number"),
    ],
)
def test_wrong_pins_are_refused_where_they_are_written(args: Any, named: Any, error: Any, words: str) -> None:
    with tw.session(engine="virtual", mesh=(2, 2)), pytest.raises(error, match=words):
        tw.asarray(DATA).relayout(*args, **named)


def test_two_directions_need_a_grid() -> None:
    with tw.session(engine="virtual", workers=4), pytest.raises(tw.LayoutError, match="needs a mesh with two"):
        tw.asarray(DATA).relayout(0, 1)
