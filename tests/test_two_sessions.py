"""Arrays of one session used in another, sessions closed in any order, memory that kept copies take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw


@pytest.fixture(autouse=True)
def recorded() -> Any:
    with tw.config(eager_bytes=0, objective="bytes"):
        yield


def test_a_copy_made_for_another_session_is_not_taken_for_ones_own() -> None:
    with tw.session(engine="virtual", workers=2):
        other = tw.evaluate(tw.asarray(np.full((8, 8), 7.0)) + 1)
        x = tw.evaluate(tw.ones((8, 8)) * 100)
        for _ in range(3):
            with tw.session(engine="virtual", workers=2):
                assert float((x.T @ x)[0, 0]) == 80_000
        assert float(x.sum()) == 6400 and float((x.T @ x)[0, 0]) == 80_000
        assert float(other.sum()) == 512


@pytest.mark.parametrize("evaluated", [False, True])
def test_what_was_recorded_outside_a_session_outlives_it(evaluated: bool) -> None:
    y = tw.asarray(np.ones((100, 100))) * 3 + 1
    with tw.session(engine="virtual", workers=4):
        assert float((y + 1).sum()) == 50_000
        if evaluated:
            tw.evaluate(y)
    assert float(y.sum()) == 40_000


def test_sessions_may_be_closed_in_any_order() -> None:
    first, second = tw.session(engine="virtual", mesh=(2, 2)), tw.session(engine="virtual", workers=3)
    first.close()
    assert float((tw.ones(5) + 1).sum()) == 10
    second.close()
    assert float((tw.ones(5) + 1).sum()) == 10


def test_copies_kept_on_workers_go_before_a_budget_is_exceeded() -> None:
    budget = 300 << 10
    with tw.session(engine="virtual", workers=4, memory=budget) as session:
        keep = []
        for _ in range(12):
            keep.append(tw.asarray(np.random.default_rng(0).random((100, 100))))
            got = (keep[-1].T @ keep[-1]).compute()
            np.testing.assert_allclose(got, np.asarray(keep[-1]).T @ np.asarray(keep[-1]))
            session.cluster.sweep()
            stored = sum(x.nbytes for parts in session.cluster.host.workers[0].store.values() for x in parts.values())
            assert stored <= budget


def test_arrays_alive_on_workers_count_against_the_budget() -> None:
    with tw.session(engine="virtual", workers=2, memory=150_000):
        alive = [tw.evaluate(tw.ones((50, 50)) * k) for k in range(4)]
        with pytest.raises(tw.MemoryBudgetError):
            for k in range(20):
                alive.append(tw.evaluate(tw.ones((50, 50)) * (k + 10)))
        del alive[4:]
        assert float(alive[0].sum()) == 0 and float(alive[3].sum()) == 7500


def test_explain_keeps_to_the_budget_of_the_session() -> None:
    with tw.session(engine="virtual", workers=4, memory=10_000), pytest.raises(tw.MemoryBudgetError):
        tw.explain(tw.ones((200, 200)) @ tw.ones((200, 200)))


def test_equal_views_in_two_sessions() -> None:
    """What the workers of one hold is no value for the other."""
    alive = []
    for workers in (4, 3):
        with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=workers):
            alive.append(tw.full((40, 5), 2.0).T)
            np.testing.assert_array_equal(np.asarray(alive[-1]), np.full((5, 40), 2.0))
    np.testing.assert_array_equal(np.asarray(alive[0]), np.full((5, 40), 2.0))
