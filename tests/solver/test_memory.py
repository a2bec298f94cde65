"""Memory per worker is a hard limit: another plan is taken, or none, before anything moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.errors import MemoryBudgetError


@pytest.fixture(autouse=True)
def recorded() -> Any:
    with tw.config(eager_bytes=0, flush=False):
        yield


def test_a_plan_that_needs_less_is_taken_though_it_is_slower() -> None:
    a = tw.ones((2000, 2000))
    free = tw.explain(a @ a, mesh=(2, 2))  # made whole everywhere, as that moves nothing
    tight = tw.explain(a @ a, mesh=(2, 2), memory="42MiB")
    assert free.memory_bytes > 42 << 20 >= tight.memory_bytes
    assert tight.cost > free.cost
    tight.verify()


def test_a_budget_that_nothing_keeps_is_refused_with_what_is_needed() -> None:
    a = tw.ones((2000, 2000))
    with pytest.raises(MemoryBudgetError, match=r"would need .* bytes and may use 1,048,576"):
        tw.explain(a @ a, workers=4, memory="1MiB")


def test_a_session_runs_within_its_budget() -> None:
    data = np.random.default_rng(0).integers(-3, 4, (400, 400)).astype(float)
    with tw.session(engine="virtual", mesh=(2, 2)) as session:
        need = tw.explain(tw.asarray(data) @ tw.asarray(data)).memory_bytes
    with tw.session(engine="virtual", mesh=(2, 2), memory=need) as session:
        got = tw.asarray(data) @ tw.asarray(data)
        np.testing.assert_array_equal(np.asarray(got), data @ data)
        assert session.cluster.counters.network_bytes == session.cluster.counters.predicted_bytes
