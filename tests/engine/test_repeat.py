"""Loops that evaluate each step on workers: plans are looked up with one walk, messages are short, bits stay."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import tilewise as tw
from tests.engine.test_wire import Driver, pair, pump  # noqa: F401  (a fixture)
from tilewise import compiler, engine, events
from tilewise.array.evaluation import workers
from tilewise.array.handle import node_of
from tilewise.array.schedule.repeat import MOST, graph_on
from tilewise.array.session import Session
from tilewise.engine.host import ServedHost
from tilewise.engine.messages import Report, Start, few_words
from tilewise.engine.network.wire import ANSWER, CALL, EPOCH, MOST_REPORTS, REPORTS, Wire
from tilewise.engine.pieces import cuts_of
from tilewise.layout import Replicate


@pytest.fixture
def session(same_settings_after_each_test: None) -> Iterator[Session]:
    tw.config(eager_bytes=0, objective="bytes")
    with tw.session(engine="virtual", workers=3) as made:
        yield made


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes each evaluation had whose plan was not looked up."""
    seen: list[int] = []
    real = workers.run_counted

    def counted(nodes: Any, *args: Any) -> Any:
        seen.append(len(nodes))
        return real(nodes, *args)

    monkeypatch.setattr(workers, "run_counted", counted)
    return seen


def loop(xp: Any, factors: list[Any], size: int = 23) -> list[Any]:
    """A halo, a sum over all, numbers that change, and an intermediate value that has a handle."""
    x, seen = xp.asarray(numpy.arange(float(size))), []
    if xp is tw:
        x = tw.evaluate(x.relayout(0))
    for k in factors:
        y = x * k
        x = y - 0.5 * y.mean()
        x[1:-1] = 0.5 * (x[:-2] + x[2:])
        if xp is tw:
            tw.evaluate(x)
        seen.append(float(x.sum()))
        seen.append(numpy.asarray(y).tobytes())
    return [numpy.asarray(x).tobytes(), *seen]


def test_the_steps_of_a_loop_are_planned_once(session: Session, planned: list[int]) -> None:
    factors = [1.5, 0.25, 3.0, -0.75, 1.25]
    before = session.cluster.counters.predicted_bytes
    first = loop(tw, factors)
    moved = session.cluster.counters.predicted_bytes - before
    once = len(planned)
    assert loop(tw, factors) == first
    assert planned[once:] == [2]  # the leaf that comes from the driver
    counters = session.cluster.counters
    assert counters.predicted_bytes - before == 2 * moved == counters.network_bytes
    compiler.forget_plans()
    assert loop(tw, factors) == first and len(planned) > once + 2


def test_numbers_that_matter_to_a_plan_are_in_its_key(session: Session) -> None:
    factors = [1.5, 0.0, -0.0, numpy.nan, 2.0, numpy.inf, 1.0, 1.5, numpy.float32(1.5), True, 3]
    got, want = loop(tw, factors), loop(numpy, factors)
    for a, b in zip(got, want, strict=True):
        x, y = (numpy.frombuffer(v) if isinstance(v, bytes) else v for v in (a, b))
        numpy.testing.assert_allclose(x, y, rtol=1e-12)


def test_complex_numbers_that_differ_in_signs_of_zeros(session: Session) -> None:
    """They are equal, to each other and to real ones."""
    data = numpy.array([1.0, 2.0, 3.0, 4.0]).astype(complex)
    x = tw.evaluate(tw.asarray(data).relayout(0))
    for number in (1, 1.0, complex(1, 0.0), complex(1, -0.0), complex(0.0, 2), complex(-0.0, 2), complex(-0.0, -0.0)):
        want, got = number - data, numpy.asarray(tw.evaluate(number - x))
        assert got.tobytes() == want.tobytes(), number


@pytest.mark.parametrize("count", [(23.0, 7.0), (7.0, 23.0)], ids=["mean first", "mean last"])
def test_what_looks_at_numbers_is_planned_each_time(session: Session, count: tuple[float, float]) -> None:
    """A sum of squared deviations is a variance only if the divisor is the number of elements."""
    data = numpy.sin(numpy.arange(23.0))
    x = tw.evaluate(tw.asarray(data).relayout(0))
    for n in (*count, *count):
        off, mine = data - data.sum() / n, x - x.sum() / n
        assert float((mine * mine).sum()) == pytest.approx((off * off).sum(), rel=1e-12)
        kept = tw.evaluate(x[x > n / 100])
        assert numpy.array_equal(numpy.asarray(kept), data[data > n / 100])


def test_other_settings_have_other_plans(session: Session, planned: list[int]) -> None:
    x = tw.evaluate(tw.asarray(numpy.arange(30.0)).relayout(0))
    totals = [float((x * x).sum()) for _ in range(3)]
    once = len(planned)
    with tw.config(fusion=False):
        totals.append(float((x * x).sum()))
    assert len(planned) == once + 1
    with tw.config(layout_seed=3):
        totals.append(float((x * x).sum()))
    assert len(planned) == once + 2 and {*totals} == {8555.0}


def test_messages_say_the_same_in_fewer_words() -> None:
    numbers = [1.5, numpy.nan, -0.0, numpy.float32(0.1), numpy.longdouble("0.1"), True, 7, numpy.uint8(3), 1 - 2j]
    consts = (*[numpy.asarray(c)[()] for c in numbers], numpy.datetime64("2020-01-02", "D"))
    start = Start(3, 7, 9, (4, None, b"source"), consts, (11, 12), "llvm", (5,), True, (None, b"sink"))
    again = Start.unpacked(start.packed())
    assert again._replace(consts=()) == start._replace(consts=())
    assert [(c.dtype, c.tobytes()) for c in again.consts] == [(c.dtype, c.tobytes()) for c in consts]
    for report in (Report(1, 2, 3), Report(1, 2, 3, (0, 0, 4)), Report(1, 2, 3, stolen_bytes=5)):
        assert Report(*report.packed()) == report == Report.unpacked(report.packed())
    for told in Report(1, 2, 3, told=((0, "x"),)), Report(1, 2, 3, (0, 0, 4), told=((0, "x"),)):
        assert Report.unpacked(told.packed()) == told
    assert len(Report(1, 2, 3).packed()) == 3


def test_reports_wait_for_those_of_calls_that_are_here(pair: tuple[Wire, Wire]) -> None:  # noqa: F811
    wire = pair[1]
    driver = Driver(wire)
    many = MOST_REPORTS + 2
    for k in range(1, many + 1):
        driver.post(1, (CALL, 0, k, "run", ()))
    pump([wire])
    for k in range(1, many + 1):
        call = wire.next_call()
        assert call is not None and call.number == k
        wire.report(call, (k, 0, 0))
        driver.progress(0.0)
        assert len(driver.heard) <= k // MOST_REPORTS
    driver.post(1, (CALL, 0, many + 1, "cut_stored", ()))
    call = wire.next_call()  # says what it has before it waits
    assert call is not None
    wire.answer(call, "at once")
    while not driver.heard or driver.heard[-1][0] != ANSWER:
        driver.progress(1.0)
    *reports, last = driver.heard
    assert [m[0] for m in reports] == [REPORTS] * 2 and last == (ANSWER, many + 1, "at once")
    assert [x for m in reports for x in m[1]] == [(k, (k, 0, 0)) for k in range(1, many + 1)]
    for k in (50, 51):
        driver.post(1, (CALL, 0, k, "run", ()))
    pump([wire])
    call = wire.next_call()
    assert call is not None
    wire.report(call, (1, 0, 0))
    driver.post(1, (EPOCH, 1))  # nobody wants to hear of it any more
    pump([wire])
    assert not wire._reports
    driver.close()


def test_reports_that_say_three_numbers_are_added_up() -> None:
    assert few_words([(3, 1, 7), (5, 0, 9), (0, 2, 8)]) == (8, 3, 9)
    assert few_words([Report(3, 1, 7).packed(), Report(5, 0, 9).packed()]) == (8, 1, 9)
    told = Report(1, 0, 2, told=((0, ("<f8", (), b"12345678")),))
    assert few_words([(3, 1, 7), told.packed()]) is None and few_words([told]) is None
    assert Report.unpacked(told.packed()) == told == Report.unpacked(told)


def test_large_graphs_are_planned_each_time(session: Session) -> None:
    x = tw.evaluate(tw.asarray(numpy.arange(12.0)).relayout(0))
    for nodes, found in ((MOST - 2, True), (MOST + 2, False)):
        y = x
        with tw.config(flush=False):
            for _ in range(nodes // 2):
                y = numpy.maximum(y, y * 0.5)
            graph = graph_on([y._cell], session.cluster)  # type: ignore[arg-type]
        assert (graph is not None) is found
        del y


def test_parts_of_a_value_come_from_where_they_lie(session: Session) -> None:
    data = numpy.arange(60.0).reshape(12, 5)
    x = tw.asarray(data)
    for made, want in (
        (tw.concatenate([x, x[::-1] * 2.0]), numpy.concatenate([data, data[::-1] * 2.0])),
        (x.relayout(1) + 1.0, data + 1.0),
        (x.sum(0), data.sum(0)),
        (x[:0] + 1.0, data[:0]),
        (x.sum() + 1.0, data.sum() + 1.0),
    ):
        held = tw.evaluate(made)._cell.node.value
        whole = tuple((0, n) for n in want.shape)
        assert numpy.array_equal(held.read(whole), want)
        if want.size > 1:
            part = tuple((n // 3, n - 1) for n in want.shape)
            assert numpy.array_equal(held.read(part), want[tuple(slice(*p) for p in part)])
        cuts = cuts_of(held.layout, held.shape, held.cluster.mesh, whole)
        assert sum(numpy.prod([hi - lo for lo, hi in c.box], dtype=int) for c in cuts) == want.size


def test_what_repeated_steps_move_is_put_down_to_their_line(session: Session) -> None:
    x = tw.evaluate(tw.asarray(numpy.arange(30.0)).relayout(0))
    heard: list[events.Event] = []
    tw.evaluate(x - x.mean())
    events.listeners.append(heard.append)
    try:
        for _ in range(2):
            tw.evaluate(x - x.mean())
    finally:
        events.listeners.remove(heard.append)
    needed = [e for e in heard if e.kind == "needed"]
    assert len(needed) == 2 and len({(e.where, e.bytes) for e in needed}) == 1
    assert needed[0].where.startswith(__file__) and needed[0].bytes > 0


def test_plans_are_not_those_of_another_mesh_that_is_gone(same_settings_after_each_test: None) -> None:
    """A cluster may lie in memory where one of more workers lay; what all workers hold is said alike for both."""
    tw.config(eager_bytes=0)
    compiler.forget_plans()
    data = numpy.arange(12.0).reshape(6, 2)
    for count in (4, 2, 3, 2):
        with tw.session(engine="virtual", workers=count) as session:
            x = tw.evaluate(tw.asarray(data).relayout(0).sum(0))
            for k in (1.7, 2.7):
                assert isinstance(x.layout, Replicate)
                assert numpy.array_equal(numpy.asarray(tw.evaluate(x * k)), data.sum(0) * k)
            assert session.cluster is not None
            mesh = session.cluster.mesh
            mine = [key for key, (plan, *_) in compiler.repeats.items() if plan.mesh == mesh]
            assert mine and all(mesh in key for key in mine)


def test_small_results_come_with_the_report_of_their_run(
    monkeypatch: pytest.MonkeyPatch, same_settings_after_each_test: None
) -> None:
    """Worker 0 and the driver share a place: nothing crosses, whoever sends it. They outlive the worker."""
    threads = pytest.importorskip("tests.engine.threads")
    asked: list[int] = []
    real = ServedHost.cut_stored

    def noted(self: ServedHost, key: int, cuts: Any) -> Any:
        asked.append(key)
        return real(self, key, cuts)

    monkeypatch.setattr(ServedHost, "cut_stored", noted)
    engine.register("threads", threads.Threads)
    tw.config(eager_bytes=0, objective="bytes")
    try:
        with tw.session(engine="threads", workers=3) as session:
            cluster: Any = session.cluster
            x = tw.evaluate(tw.asarray(numpy.arange(60.0)).relayout(0))
            assert [float((x * k).sum()) for k in range(4)] == [1770.0 * k for k in range(4)] and not asked
            total, (low, high) = (x > 30).sum(), tw.evaluate(x.min(), x.max())
            assert int(total) == 29 and (float(low), float(high)) == (0.0, 59.0) and not asked
            pair = tw.evaluate(tw.stack([x.sum(), x.max()]))
            assert numpy.asarray(pair).tolist() == [1770.0, 59.0] and float(pair[1]) == 59.0
            assert cluster.counters.network_bytes == cluster.counters.predicted_bytes > 0
            kept = tw.evaluate(x.sum())
            cluster.settle()
            cluster.kill(threads.process_of(cluster, 0))
            assert float(kept) == 1770.0
            asked.clear()
            numpy.testing.assert_array_equal(numpy.asarray(x), numpy.arange(60.0))
            assert asked, "what is large is asked for"
            assert float((kept + x).sum()) == 1770.0 * 61
    finally:
        engine.unregister("threads")


def test_windows_are_sent_without_their_hashes() -> None:
    x = tw.asarray(numpy.arange(60.0))
    with tw.config(eager_bytes=0):
        windows = [node_of(x[2:-1]).op for _ in range(2)]
    assert windows[0] is windows[1] and hash(windows[0]) and "_hash" in vars(windows[0])
    other = pickle.loads(pickle.dumps(windows[0]))
    assert "_hash" not in vars(other) and other == windows[0] and hash(other) == hash(windows[0])
