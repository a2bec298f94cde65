"""Where time decides, bytes that cost hardly any time are saved all the same. NumPy is the oracle for values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.layout import Replicate, Shard

WORKERS = 4
SPREAD = WORKERS - 1  # copies of a value that go to all others


def covariance(np: Any, x: Any) -> Any:
    return abs(np.linalg.eigh(x.T @ x)[1][:, -2:])


def projected(np: Any, x: Any) -> Any:
    return abs(x @ np.linalg.eigh(x.T @ x)[1][:, -2:])


def gram(np: Any, x: Any) -> Any:
    return x.T @ x


def both_sums(np: Any, x: Any) -> Any:
    return (x.T @ x) / x.sum(0)[:, None]


def gradient(np: Any, x: Any) -> Any:
    return x.T @ np.tanh(x @ np.linspace(-1, 1, 12))


PER_SUM = 12 * 12 * 8


@pytest.mark.parametrize(
    ("program", "rows", "copies", "layout"),
    [
        # What is left of a small matrix is much smaller: it is taken apart at one place.
        (covariance, 400_000, SPREAD * PER_SUM, Shard),
        # It meets data that are cut: all need it. One more round is nothing beside the product.
        (projected, 400_000, 2 * SPREAD * PER_SUM, Shard),
        # The sum is the result: it stays with all, in two exchanges instead of one.
        (gram, 400_000, 2 * SPREAD * PER_SUM, Replicate),
        # Beside little work a second round would count.
        (gram, 80, WORKERS * SPREAD * PER_SUM, Replicate),
        # So few numbers count as well beside work that takes long enough.
        (gradient, 400_000, 2 * SPREAD * 12 * 8, Replicate),
        # Two sums share their rounds.
        (both_sums, 400_000, 2 * SPREAD * (PER_SUM + 12 * 8), Replicate),
    ],
)
def test_bytes_that_cost_no_time_are_saved(program: Any, rows: int, copies: int, layout: type) -> None:
    some = np.random.default_rng(3).normal(size=(80, 12)) * np.arange(1, 13)
    data = np.tile(some, (rows // 80, 1))
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=WORKERS) as session:
        x = tw.evaluate(tw.asarray(data).relayout(0))
        result = program(tw, x)
        announced = tw.explain(result)
        assert session.cluster is not None
        before = session.cluster.counters.network_bytes
        result = tw.evaluate(result)
        counted = session.cluster.counters.network_bytes - before
        assert isinstance(result.layout, layout)
        assert (
            counted
            == copies
            == announced.network_bytes - sum(e.bytes for e in announced.exchanges if e.kind == "gather")
        )
        np.testing.assert_allclose(np.asarray(result), program(np, data), rtol=1e-9)
