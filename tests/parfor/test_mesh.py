"""Parallel loops on arrays of a session's workers: iterations side by side in a plan, with the plain loop's results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.engine.threads import Threads
from tilewise import engine
from tilewise.engine.cluster import Cluster
from tilewise.engine.rounds import rounds
from tilewise.errors import ParforError

X = np.random.default_rng(5).normal(size=(37, 6))  # blocks of 10 and 9 rows
X[3, 2], X[5, 1] = np.nan, -0.0
W = np.random.default_rng(6).normal(size=(5, 6))


@pytest.fixture(params=["virtual", "threads"])
def session(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "threads":
        engine.register("threads", Threads)
    with tw.session(engine=request.param, workers=4) as opened, tw.config(eager_bytes=0):
        yield opened
    if request.param == "threads":
        engine.unregister("threads")


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans that workers are given."""
    seen: list[Any] = []
    run = Cluster.run

    def noted(self: Cluster, plan: Any, *args: Any, **named: Any) -> Any:
        seen.append(plan)
        return run(self, plan, *args, **named)

    monkeypatch.setattr(Cluster, "run", noted)
    return seen


def errors(x: Any, w: Any, out: Any, size: int | None) -> Any:
    total = 10.0
    for k in tw.parfor(range(len(w)), task_size=size):
        r = x @ w[k] - x[:, 0]
        out[k] = (r * r).sum(axis=0)
        total += r.sum()
    return out, total


def sums(x: Any, w: Any, out: Any, size: int | None) -> Any:
    for k in tw.parfor(range(len(w)), task_size=size):
        out += x * w[k]
    return (out,)


def on_workers() -> Any:
    return tw.evaluate(tw.asarray(X) * 1.0)


RESULTS: dict[str, Callable[[], Any]] = {
    "ndarray": lambda: np.ones(5),
    "Array": lambda: tw.ones(5),
    "list": lambda: [None] * 5,
    "dict": dict,
}


@pytest.mark.parametrize("size", [None, 2])
@pytest.mark.parametrize("kind", RESULTS)
def test_results_are_those_of_the_plain_loop(session: Any, plans: list[Any], kind: str, size: int | None) -> None:
    x, function = on_workers(), tw.parallel(errors)
    expected, total = errors(X, W, np.ones(5), None)
    out = RESULTS[kind]()
    plans.clear()
    found, sum_ = function(x, W, out, size)
    report = function.report[0]
    assert (report.mode, report.body, report.workers) == ("mesh", "recorded", 4)
    assert report.tasks == ((5,) if size is None else (2, 2, 1)) and len(plans) == len(report.tasks)
    assert len(rounds(plans[0])) <= 2  # as one iteration has
    assert found is out and type(sum_) is tw.Array
    values: Any = [np.asarray(out[k]) for k in range(5)]
    np.testing.assert_allclose(np.array(values, float), expected, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(sum_), total, rtol=1e-12)
    counters = session.cluster.counters
    assert counters.network_bytes == counters.predicted_bytes


def test_whole_arrays_are_accumulated(session: Any, plans: list[Any]) -> None:
    function = tw.parallel(sums)
    x = on_workers()
    for out in (np.ones((37, 6)), tw.ones((37, 6))):
        plans.clear()
        function(x, W, out, None)
        assert function.report[0].mode == "mesh" and len(plans) == 1
        np.testing.assert_allclose(np.asarray(out), sums(X, W, np.ones((37, 6)), None)[0], rtol=1e-12)


def test_explain_says_what_runs_side_by_side(session: Any, plans: list[Any]) -> None:
    x = on_workers()
    plans.clear()
    text = str(tw.explain(tw.parallel(errors), x, W, np.ones(5), None))
    assert not plans
    assert "mesh: x on the workers; 5 iterations side by side in a plan, of about 6 operators each" in text
    assert "body: recorded" in text


@pytest.mark.parametrize("asked", [True, False])
def test_a_failing_iteration_leaves_nothing_behind(session: Any, asked: bool) -> None:
    @tw.parallel
    def fails(x: Any, out: Any, seen: Any, mode: Any) -> None:
        for k in tw.parfor(range(4), mode=mode):
            out[k] = x.sum()
            seen[k] = k
            x[: k + 1].reshape(6 if k < 3 else 5, -1)

    out, seen = tw.ones(4), [None] * 4
    with pytest.raises(ValueError, match="reshape") as caught:
        fails(on_workers(), out, seen, "mesh" if asked else None)
    assert "iteration k = 3 of the parfor" in caught.value.__notes__[-1]
    assert fails.report[0].mode == "mesh"
    assert np.asarray(out).tolist() == [1, 1, 1, 1] and seen == [None] * 4


def test_other_loops_run_elsewhere(session: Any) -> None:
    @tw.parallel
    def elements(x: Any, out: Any) -> None:
        for i in tw.parfor(range(len(out))):
            for j in range(300):
                out[i] += x[i, j % 6]

    @tw.parallel
    def views(x: Any, out: Any, part: Any) -> None:
        for i in tw.parfor(range(4)):
            out[i] = x[i].sum()
            part[i] = 0.0

    x, out = on_workers(), np.zeros(8)
    elements(x, out[:4].copy())
    assert elements.report[0].mode != "mesh"
    views(x, out, out[4:])
    assert views.report[0].mode != "mesh" and np.allclose(out[:4], X[:4].sum(axis=1), equal_nan=True)
    tw.parallel(errors)(X, W, np.ones(5), None)  # arrays of the driver alone


def test_lengths_of_loops(session: Any) -> None:
    x, function = on_workers(), tw.parallel(errors)
    for n in (0, 1):
        out, total = function(x, W[:n], np.ones(n), None)
        expected, sum_ = errors(X, W[:n], np.ones(n), None)
        assert np.allclose(out, expected, equal_nan=True) and np.allclose(float(total), sum_, equal_nan=True)


def test_the_mesh_is_asked_for_where_there_is_none() -> None:
    @tw.parallel
    def loop(out: Any) -> None:
        for i in tw.parfor(range(3), mode="mesh"):
            out[i] = i

    with pytest.raises(ParforError, match="on the workers of a session"):
        loop(np.zeros(3))
