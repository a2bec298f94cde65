"""One source on every engine: local, virtual clusters, Ray actors. Values are NumPy's, counted bytes as predicted.

Ray is started once for this file, with little memory; actors once per number of workers.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy
import pytest

import tilewise as tw
from tests.engine.programs import (
    PROGRAMS,
    STAYING,
    data,
    jacobi,
    same,
    standardise,
)
from tests.store.toys import Grown, elements
from tilewise.array.handle import from_source
from tilewise.array.session import Session
from tilewise.engine.cluster import Cluster
from tilewise.engine.counters import Counters
from tilewise.engine.recovery.worker_errors import portable
from tilewise.engine.rounds import rounds
from tilewise.errors import SessionClosedError

STORE_BYTES = 256 << 20
ENGINES: list[Any] = [
    ("local", 1), ("virtual", 1), ("virtual", 2), ("virtual", 4), ("virtual", 7), ("virtual", (2, 2)),
    ("ray", 2), pytest.param(("ray", 4), marks=pytest.mark.soak), ("ray", (2, 2)),
]  # fmt: skip


@pytest.fixture(scope="module")
def ray_here() -> Iterator[Any]:
    """A Ray that the sessions of this file join."""
    engine = pytest.importorskip("tilewise.engine.ray")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    connection = engine.start(object_store_memory=STORE_BYTES)
    yield engine
    connection.end()


def opened(engine: str, mesh: Any, request: pytest.FixtureRequest) -> Session:
    if engine == "ray":
        request.getfixturevalue("ray_here")
    return tw.session(engine=engine, mesh=mesh)


@pytest.fixture(scope="module", params=ENGINES, ids=lambda p: f"{p[0]}{p[1]}")
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with opened(*request.param, request) as made:
        yield made


@pytest.fixture(scope="module", params=[("virtual", 3), ("ray", 3)], ids=lambda p: f"{p[0]}{p[1]}")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster whose current session is the test's."""
    with opened(*request.param, request) as made:
        assert made.cluster is not None
        yield made.cluster


@pytest.fixture(autouse=True)
def everything_recorded(same_settings_after_each_test: None) -> None:
    tw.config(eager_bytes=0, fallback="silent", objective="bytes")  # by time, small arrays would be replicated


def as_predicted(now: Counters, before: Counters) -> bool:
    """Whether what moved since is what plans said: exactly, or within a bound where it depends on data."""
    moved = now.network_bytes - before.network_bytes
    more = moved - (now.predicted_bytes - before.predicted_bytes)
    bounded = now.bounded_bytes - before.bounded_bytes
    return more == 0 if not bounded else 0 < more <= bounded


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_equal_to_numpy_and_as_many_bytes_as_predicted(session: Session, program: Callable[[Any], Any]) -> None:
    counters = session.cluster.counters if session.cluster is not None else None
    before = replace(counters) if counters is not None else Counters()
    got = program(tw)
    same(got, program(numpy))
    if counters is not None:
        assert as_predicted(counters, before)
        if program not in STAYING:
            assert (counters.network_bytes > before.network_bytes) == (session.workers > 1)
        assert counters.replays == 0


def test_any_choice_of_layouts(session: Session) -> None:
    before = replace(session.cluster.counters) if session.cluster is not None else Counters()
    for seed in range(3 if session.engine == "ray" else 8):
        with tw.config(layout_seed=seed):
            same(standardise(tw), standardise(numpy))
            same(jacobi(tw, 1), jacobi(numpy, 1))
    if session.cluster is not None:
        assert as_predicted(session.cluster.counters, before)


# -- clusters ---------------------------------------------------------------------------------------------------------


def stored(cluster: Cluster) -> list[list[int]]:
    gc.collect()
    cluster.sweep()
    by_worker = {
        w: keys for of in cluster.wait([cluster.call(h, "stored") for h in cluster.hosts]) for w, keys in of.items()
    }
    return [by_worker[w] for w in range(cluster.mesh.workers)]


@pytest.mark.parametrize(("workers", "blocks"), [(1, 3), (2, 2), (3, 1), (2, 3)])
def test_ghosts_come_from_the_blocks_of_the_same_worker_too(workers: int, blocks: int) -> None:
    start = numpy.arange(480.0).reshape(120, 4) % 7
    with tw.config(eager_bytes=0, blocks=blocks), tw.session(engine="virtual", workers=workers):
        ours, theirs = tw.asarray(start) * 2, start * 2
        for _ in range(4):  # from the second turn on, ghosts go to the margins of what is there
            for x in (ours, theirs):
                x[:-1] = x[1:]
            tw.evaluate(ours)
        numpy.testing.assert_array_equal(numpy.asarray(ours), theirs)


def test_a_loop_ships_its_plan_once(cluster: Cluster) -> None:
    x = tw.arange(900.0).reshape(30, 30)
    tw.evaluate(x)
    known = set()
    for _ in range(5):
        x = x * 0.5 + 1.0
        tw.evaluate(x)
        known.add(len(cluster.plans))
    assert len(known) <= 2 and cluster.taught == set(cluster.plans)


def test_dropped_values_are_freed_on_workers(cluster: Cluster) -> None:
    before = stored(cluster)
    x = tw.arange(100.0) + 1
    y = x * 2
    tw.evaluate(x, y)
    assert all(len(now) == len(then) + 2 for now, then in zip(stored(cluster), before, strict=True))
    del x
    assert all(len(now) == len(then) + 1 for now, then in zip(stored(cluster), before, strict=True))
    del y
    assert stored(cluster) == before
    assert not cluster.log


def test_an_error_that_depends_on_data_names_the_line_and_loses_nothing(cluster: Cluster) -> None:
    before = stored(cluster)
    x = tw.asarray(data(12, 4)) + 1.0
    tw.evaluate(x)
    index = tw.arange(12) + 5  # some are out of range, which only the workers find out
    bad = x[index] * 2
    with pytest.raises(IndexError) as caught:
        bad.compute()
    assert type(caught.value) is IndexError
    assert any("recorded at" in note and __file__ in note for note in caught.value.__notes__)
    same(x, data(12, 4) + 1.0)
    same(index, numpy.arange(12) + 5)
    same((x * 2).sum(0), ((data(12, 4) + 1.0) * 2).sum(0))
    del bad, index, x, caught
    assert stored(cluster) == before


def test_an_error_that_cannot_be_sent_is_told_in_words() -> None:
    class Local(Exception):
        pass

    error = Local("too deep")
    error.add_note("in sum, recorded at a.py:3")
    sent = portable(error)
    assert str(sent) == "Local: too deep" and sent.__notes__ == error.__notes__
    assert portable(missing := MemoryError("no room")) is missing


def test_two_exchanges_that_stand_together_share_a_round(cluster: Cluster) -> None:
    u, v = tw.asarray(data(60, 4)) * 1.0, tw.asarray(data(60, 4)) + 1.0
    tw.evaluate(u, v)
    w = u[1:] - u[:-1] + v[1:] * v[:-1]
    tw.evaluate(w)
    a = data(60, 4)
    same(w, a[1:] - a[:-1] + (a + 1)[1:] * (a + 1)[:-1])
    plan = list(cluster.plans.values())[-1].plan
    crossing = sum(e.network_elements > 0 for r in plan.routes for e in r)
    assert len(rounds(plan)) <= crossing + 1


@pytest.mark.parametrize("waits", [False, True])
def test_an_interrupt_leaves_workers_in_order(cluster: Cluster, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    before = stored(cluster)
    x = tw.asarray(data(50, 50)) * 1.0
    tw.evaluate(x)
    real, calls = cluster.wait, []

    def interrupted(futures: Any) -> Any:
        if not calls:
            calls.append(1)
            raise KeyboardInterrupt
        return real(futures)

    a = data(50, 50)
    y, want = (tw.sort(x, axis=0), numpy.sort(a, axis=0)) if waits else (x @ x + x.sum(0), a @ a + a.sum(0))
    monkeypatch.setattr(cluster, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tw.evaluate(y) if waits else y.compute()  # the driver waits for what can fail, and for what it needs
    same(y, want)
    del x, y
    assert stored(cluster) == before


def test_an_array_written_after_it_was_sent_does_not_change_what_was_made_of_it(cluster: Cluster) -> None:
    source = tw.asarray(data(40))
    y = source + 1
    tw.evaluate(y)
    source[:] = 0
    before = cluster.counters.replays
    cluster.broken = cluster.mortal  # as if a worker had been lost
    same(y, data(40) + 1)
    assert cluster.counters.replays == before + cluster.mortal


def test_workers_read_sources(session: Session) -> None:
    counters = None if session.cluster is None else session.cluster.counters
    before = None if counters is None else (counters.network_bytes, counters.predicted_bytes)
    x = from_source(Grown((40, 30), (16, 30)))
    want = elements((40, 30), "f8")
    same((x - x.mean(0)).sum(1), (want - want.mean(0)).sum(1))
    same(x, want)
    if counters is not None and before is not None:
        assert counters.network_bytes - before[0] == counters.predicted_bytes - before[1]


@pytest.mark.parametrize(("engine", "workers"), [("virtual", 2), ("ray", 1)])
def test_closed_sessions(engine: str, workers: int, request: pytest.FixtureRequest) -> None:
    with opened(engine, workers, request):
        x = tw.arange(10.0) * 2
        y = x + 1
        tw.evaluate(x, y)
        z = y.compute()
    assert float(numpy.asarray(z).sum()) == 100.0
    with pytest.raises(SessionClosedError, match="compute"):
        x.compute()
    with pytest.raises(SessionClosedError), tw.session(engine="virtual", workers=2):
        (x + 1).compute()


def test_a_profile_shows_kernels_exchanges_and_memory_of_each_worker(cluster: Cluster) -> None:
    x = tw.evaluate(tw.asarray(data(60, 4)).relayout(0))
    y = tw.evaluate(x - x.mean(0))  # under way, perhaps
    before = cluster.counters.network_bytes
    began = time.perf_counter()
    with tw.profile() as p:
        z = tw.evaluate(y - y.mean(0) * 2)
        same(tw.sort(z, axis=0), numpy.sort(numpy.asarray(z), axis=0))
    ended = time.perf_counter()
    assert p.network_bytes == cluster.counters.network_bytes - before > 0
    assert sum(r.bytes for r in p.exchanges) == p.network_bytes
    names = {r.name for r in p.exchanges}
    assert names & {"all-reduce", "reduce-scatter"} and {r.where.split(":")[0] for r in p.exchanges if r.where} == {
        __file__
    }
    assert p.kernels and {e.worker for e in p.timeline if e.kind in ("pass", "call")} == {0, 1, 2}
    for w in range(3):
        events = [e for e in p.of_worker(w) if e.kind != "gather"]
        assert events and all(began <= e.start <= e.end <= ended for e in events)
    assert set(p.worker_peaks) == {0, 1, 2} and min(p.worker_peaks.values()) >= 60 * 4 * 8 // 3
    assert all(name in str(p) for name in names) and "peak bytes of workers" in str(p)


# -- processes that end ------------------------------------------------------------------------------------------------


on_actors = pytest.mark.parametrize("cluster", [("ray", 3)], ids=["ray3"], indirect=True)


def host_of(cluster: Any, worker: int) -> int:
    return next(h for h, workers in cluster.hosts.items() if worker in workers)


def end(cluster: Any, worker: int, how: str = "kill", seen: bool = True) -> int:
    """End a worker's process from outside or inside. That takes Ray a moment: `seen` waits until nobody is there."""
    host = host_of(cluster, worker)
    actor = cluster.actors[host]
    if how == "kill":
        sys.modules["ray"].kill(actor, no_restart=True)
    else:
        actor.__ray_call__.remote(lambda worker: os._exit(1))
    if seen:
        until_gone(cluster, host)
    return host


def until_gone(cluster: Any, host: int) -> None:
    until = time.monotonic() + 30.0
    while host in cluster.lines.links:
        assert time.monotonic() < until
        cluster.lines.progress(0.1)


@on_actors
def test_actors_that_die_between_plans(cluster: Any, ray_here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "copies_blocks", False)  # neighbours are ended at once

    def dying(np: Any, at: dict[int, list[tuple[str, int]]], waits: bool = True) -> Any:
        x = np.array(data(41, 13)) * 1.0
        kept = x * 3
        for step in range(8):
            for how, w in at.get(step, []) if np is tw else []:
                ended.append(end(cluster, w, how, seen=waits))
            x[1:-1] = 0.5 * (x[:-2] + x[2:]) - x.mean(0)
            if np is tw:
                tw.evaluate(x)
                if waits:
                    cluster.settle()
        return x, kept

    ended: list[int] = []
    at = {2: [("kill", 1)], 4: [("exit", 0)], 6: [("kill", 0), ("exit", 1)]}
    before = cluster.counters.replays
    same(dying(tw, at), dying(numpy, {}))
    assert cluster.counters.replays == before + 3
    assert cluster.counters.network_bytes == cluster.counters.predicted_bytes
    same(dying(tw, {1: [("exit", 2)]}, waits=False), dying(numpy, {}))  # noticed some plans later
    until_gone(cluster, ended[-1])
    same(tw.evaluate(tw.arange(100.0) * 3), numpy.arange(100.0) * 3)
    assert cluster.counters.replays == before + 4
    assert cluster.counters.network_bytes == cluster.counters.predicted_bytes
    assert cluster.counters.replayed_bytes > 0
    y = tw.arange(100.0) * 2
    tw.evaluate(y)
    end(cluster, 0)
    same(y, numpy.arange(100.0) * 2)  # lost before it was gathered
    assert cluster.counters.replays == before + 5


@on_actors
def test_an_actor_that_dies_after_many_plans(cluster: Any, ray_here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewise.engine.recovery.copying.SHARE", 0)
    assert len({cluster.node_of(h) for h in cluster.hosts}) == 1

    def many(np: Any) -> Any:
        x = np.array(data(41, 13)) * 1.0
        for step in range(80):
            x[1:-1] = 0.5 * (x[:-2] + x[2:])
            if np is tw:
                tw.evaluate(x)
                if step == 70:
                    cluster.settle()
                    assert cluster.counters.copies > copies and len(cluster.log) < 70
                    end(cluster, 1)
        return x

    before, copies = cluster.counters.replays, cluster.counters.copies
    same(many(tw), many(numpy))
    assert cluster.counters.replays == before + 1
    assert cluster.counters.network_bytes == cluster.counters.predicted_bytes
    with tw.profile() as p:
        tw.evaluate(tw.arange(300.0) + 1)
    assert set(p.worker_processes) == {0, 1, 2} and min(p.worker_processes.values()) > 30 << 20
    assert "bytes of their processes" in str(p)


@on_actors
def test_an_actor_that_dies_in_the_middle_of_a_plan(cluster: Any, ray_here: Any) -> None:
    x = tw.asarray(data(600, 600))
    y = x * 1.0
    tw.evaluate(y)
    victim, before = host_of(cluster, 1), cluster.counters.replays
    killer = threading.Timer(0.1, lambda: end(cluster, 1, seen=False))
    for _ in range(12):
        y = y @ x / 25.0
    killer.start()
    got = y.compute()
    killer.join()
    until_gone(cluster, victim)
    want = data(600, 600)
    for _ in range(12):
        want = want @ data(600, 600) / 25.0
    numpy.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8 * abs(want).max())
    (y + 1).compute()
    assert cluster.counters.replays == before + 1
    assert cluster.counters.network_bytes == cluster.counters.predicted_bytes


@on_actors
def test_a_real_interrupt(cluster: Any) -> None:
    x = tw.asarray(data(1500, 1500)) * 1.0
    tw.evaluate(x)
    before = cluster.counters.replays
    y = x @ x
    for _ in range(10):
        y = y @ x
    timer = threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        tw.evaluate(y)
        time.sleep(1.0)
    assert time.perf_counter() - began < 10.0
    same(x.sum(0), data(1500, 1500).sum(0))
    assert cluster.counters.replays == before


@on_actors
def test_places_that_were_found_are_found_again(cluster: Any) -> None:
    host = next(cluster._processes)
    cluster.spawn([host])
    try:
        found = cluster.places([host], 60.0)
        assert list(found) == [host] and cluster.places([host], 60.0) == found  # the first answer was lost to Ctrl-C
    finally:
        cluster.end(host)


@on_actors
def test_threads_of_actors_fit_the_cores(cluster: Any, ray_here: Any) -> None:
    seen = ray_here.ray.get(
        [
            a.__ray_call__.remote(lambda w: (os.environ["OPENBLAS_NUM_THREADS"], os.environ["OMP_NUM_THREADS"]))
            for a in cluster.actors.values()
        ]
    )
    assert set(seen) == {(str(cluster.threads),) * 2}
    assert cluster.threads == 1 or cluster.threads * 3 <= (os.cpu_count() or 1)
