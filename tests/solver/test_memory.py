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
    a = tw.random.Generator(tw.random.Counter(1)).random((2000, 2000))
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


def test_a_budget_may_call_for_copies_that_a_plan_without_one_does_not_weigh() -> None:
    data = np.random.default_rng(0).normal(size=(103, 35))

    def turns(u: Any) -> Any:
        for _ in range(3):
            v = u.copy()
            v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
            u = v
        return u

    with tw.config(flush=True), tw.session(engine="virtual", workers=4, memory=122_640):
        u = turns(tw.asarray(data))
        plan = tw.explain(u)
        assert plan.memory_bytes <= 122_640
        plan.verify()
        np.testing.assert_allclose(np.asarray(u), turns(data))


def test_what_comes_early_from_the_driver_is_announced() -> None:
    """A scatter does not wait for the exchanges before it, so it is there while they are joined."""
    with tw.session(engine="virtual", workers=4) as session:
        a, b = tw.asarray(np.ones((400, 33))), tw.asarray(np.ones((33, 2)))
        wanted = (tw.einsum("ij,jk->k", a, b), tw.einsum("ij,ij->i", a, a), a.sum(axis=0), tw.outer(a[:, 0], b[0]))
        announced = tw.explain(*wanted).memory_bytes
        tw.evaluate(*wanted)
        assert session.cluster.counters.peak_bytes <= announced


SOME, ALL = range(30_000, 130_000, 45_000), range(30_000, 130_000, 10_000)


@pytest.mark.parametrize(
    ("workers", "budgets"),
    [(2, SOME), (4, SOME), pytest.param(2, ALL, marks=pytest.mark.soak), pytest.param(4, ALL, marks=pytest.mark.soak)],
    ids=["2", "4", "2 all", "4 all"],
)
def test_more_memory_is_not_refused_where_less_is_enough(workers: int, budgets: range) -> None:
    """Plans of a loop leave values on workers as there is room; later ones have to get by with what that leaves."""
    data = np.random.default_rng(0).normal(size=(103, 35))

    def turns(u: Any) -> Any:
        for _ in range(3):
            v = u.copy()
            v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
            u = v
        return u

    def runs(memory: int) -> bool:
        with tw.config(flush=True), tw.session(engine="virtual", workers=workers, memory=memory) as session:
            try:
                u = turns(tw.asarray(data))
                announced = tw.explain(u).memory_bytes
                np.testing.assert_allclose(u.compute(), turns(data))
                assert session.cluster.counters.peak_bytes <= memory and announced <= memory
            except MemoryBudgetError:
                return False
            return True

    found = [runs(m) for m in budgets]
    assert found == sorted(found) and not found[0] and found[-1]
