"""Copies of live blocks with neighbours: the log stays short, recovery begins at the last copy, workers move back."""

from __future__ import annotations

import gc
import socket
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import pytest

import tilewise as tw
from tests.engine.threads import Threads, process_of, start, steps
from tests.store.toys import Grown, elements
from tilewise import engine
from tilewise.array.handle import from_source
from tilewise.engine.footprint import Footprint, resident_bytes
from tilewise.engine.hosts import WorkerLost
from tilewise.engine.network.links import Address
from tilewise.engine.recovery.copies import Copies, packed, unpacked
from tilewise.engine.recovery.copying import LEAST_PLANS, Copying, keepers
from tilewise.engine.recovery.replay_log import Entry, Log
from tilewise.errors import PerformanceWarning, TilewiseError
from tilewise.layout import DRIVER
from tilewise.store import pool

SECONDS = 30.0  # a test that takes longer hangs


@pytest.fixture(autouse=True)
def registered(same_settings_after_each_test: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    tw.config(eager_bytes=0, fallback="silent", objective="bytes")
    monkeypatch.setattr("tilewise.engine.recovery.copying.SHARE", 0)  # copies as often as can be
    engine.register("threads", Threads)
    yield
    engine.unregister("threads")


@contextmanager
def opened(workers: int, **options: Any) -> Iterator[Any]:
    began = time.monotonic()
    with tw.session(engine="threads", workers=workers, **options) as session:
        session.cluster.look_seconds = 0.0
        yield session.cluster
    assert time.monotonic() - began < SECONDS


class Runs:
    """How many plans were started."""

    def __init__(self, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = cluster._start

        def counting(*args: Any) -> None:
            self.count += 1
            real(*args)

        monkeypatch.setattr(cluster, "_start", counting)


# -- how blocks are kept ----------------------------------------------------------------------------------------------

BLOCKS = {
    1: {0: numpy.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0), 3: numpy.asfortranarray(numpy.ones((3, 2), "f4"))},
    2: {-1: numpy.array(-0.0), 5: numpy.empty((0, 4), "i2"), 6: numpy.array(["a", "bcd"]), 7: numpy.arange(9)[::-2]},
    3: {},
    4: {0: numpy.array([numpy.nan, numpy.inf, 1j]), 1: numpy.broadcast_to(numpy.arange(3), (2, 3))},
    5: {0: numpy.arange(40_000.0).reshape(200, 200).T, 1: numpy.array([None, "x"], object)},
}


def same_blocks(got: Any) -> None:
    assert {key: list(parts) for key, parts in got.items()} == {key: list(parts) for key, parts in BLOCKS.items()}
    for key, parts in BLOCKS.items():
        for block, want in parts.items():
            x = got[key][block]
            assert x.dtype == want.dtype and x.shape == want.shape and x.tolist().__repr__() == repr(want.tolist())


def test_blocks_come_back_as_they_were() -> None:
    got = unpacked(packed(BLOCKS))
    same_blocks(got)
    assert got[1][0].strides == BLOCKS[1][0].strides and got[5][0].flags.f_contiguous and got[1][3].flags.f_contiguous
    for in_files in (False, True):
        copies = Copies(in_files)
        copies.put(2, BLOCKS)
        copies.put(0, {1: BLOCKS[1]})
        same_blocks(copies.get(2, [1, 2, 3, 4, 5, 6]))
        assert set(copies) == {(2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (0, 1)} and (0, 2) not in copies
        copies.drop([1, 9])
        assert not copies.get(0, [1]) and len(copies) == 4
        copies.keep_only([5])
        assert list(copies) == [(2, 5)]
        copies.keep_only([])


def test_copies_go_to_another_machine_if_there_is_one() -> None:
    assert keepers({7: (0,), 8: (1,), 9: (2,)}, lambda h: h) == {0: 1, 1: 2, 2: 0}
    assert keepers({7: (0,), 8: (1,), 9: (2,)}, lambda h: h >= 9) == {0: 2, 1: 2, 2: 0}
    assert keepers({7: (0, 2), 8: (1,)}, lambda h: 0) == {0: 1, 2: 1, 1: 0}
    assert keepers({7: (0, 1)}, lambda h: 0) == {0: DRIVER, 1: DRIVER}


def test_a_copy_takes_a_fiftieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    copying = Copying(plans=LEAST_PLANS)
    copying.took(0.501, 100_000_000)
    clock[0] += 24.9
    assert not copying.due(100_000_000, 0) and copying.due(50_000_000, 0)
    assert copying.due(100_000_000, 450_000_000)  # the driver remembers too much
    clock[0] += 0.2
    assert copying.due(100_000_000, 0)
    copying.begun()
    clock[0] += 40.0
    assert not copying.due(100_000_000, 0)  # after a few plans only


def test_a_process_that_is_too_large_gives_idle_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resident_bytes() > 20 << 20
    size = [50 << 20]
    monkeypatch.setattr("tilewise.engine.footprint.resident_bytes", lambda: size[0])
    process = Footprint(100 << 20)
    try:
        pool.empty((1 << 20,), float)
        idle = pool.idle_bytes()
        assert idle
        size[0] += 99 << 20
        process.trim()
        assert pool.idle_bytes() == idle
        size[0] += 2 << 20
        process.trim()
        assert pool.idle_bytes() == 0
    finally:
        pool.bound(None)


# -- the log ----------------------------------------------------------------------------------------------------------


def test_a_long_loop_leaves_a_short_log_and_is_brought_back_in_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(3) as cluster:
        want = numpy.asarray(steps(steps(tw.asarray(start()).relayout(0), 150), 10))
        x = steps(tw.asarray(start()).relayout(0), 150)
        cluster.settle()
        before, predicted = cluster.counters.copies, cluster.counters.predicted_bytes
        assert before >= 150 // (2 * LEAST_PLANS + 32) and len(cluster.log) < 2 * LEAST_PLANS + 32 and predicted
        cluster.kill(process_of(cluster, 1))
        runs = Runs(cluster, monkeypatch)
        x = steps(x, 10)
        numpy.testing.assert_array_equal(numpy.asarray(x), want)  # the same bits
        counters = cluster.counters
        assert counters.replays == 1 and counters.network_bytes == counters.predicted_bytes
        assert runs.count < 20 + 2 * LEAST_PLANS + 32
        assert counters.copies > before


@pytest.mark.parametrize("memory", [None, "1MiB"])
def test_any_process_may_be_lost_one_after_the_other(memory: Any) -> None:
    want = steps(start(), 25 * 6)
    with opened(3, memory=memory) as cluster:
        fixed = tw.evaluate(tw.asarray(start()).relayout(0))
        x = steps(fixed + 0, 25)
        for w in (0, 1, 2, 2, 0):
            cluster.settle()
            cluster.kill(process_of(cluster, w))
            x = steps(x, 25)
        numpy.testing.assert_allclose(numpy.asarray(x), want, atol=1e-12)
        numpy.testing.assert_array_equal(numpy.asarray(fixed), start())
        assert cluster.counters.replays == 5 and cluster.counters.copies > 5
        del x, fixed
        gc.collect()
        cluster.sweep()
        assert not cluster.log and not cluster.log.fresh and not cluster.log.live and not cluster.log.nbytes


def test_a_process_may_be_missed_when_a_copy_starts() -> None:
    with opened(3) as cluster:
        fixed = tw.evaluate(tw.asarray(start()).relayout(0))
        cluster._surely(cluster._start_copy)
        for w in (0, 1, 2, 2, 0):
            before, lost = cluster.counters.copies, process_of(cluster, w)
            cluster.kill(lost)
            cluster.lines.drop(lost)
            cluster._surely(cluster._start_copy)
            assert cluster.counters.copies == before + 1  # the one that bringing it back ends with is enough
            assert len(cluster.log.kept()) == 1 and not cluster.log.unneeded
        numpy.testing.assert_array_equal(numpy.asarray(fixed), start())


def test_copies_stay_that_another_copy_under_way_did_not_know_of() -> None:
    log = Log()
    log.add(Entry(1, (), (), (2, 3), ""), [8, 8])
    log.add(Entry(2, (3,), (), (4,), ""), [8])
    before = frozenset(log)
    log.release([3])
    for _ in range(2):
        log.copied(before, [2, 4])
        assert log.kept() == [2, 4] and not log.unneeded and not log.fresh and not log.replay()
    log.release([2])
    log.copied(before, [2, 4])
    assert log.kept() == [4] and log.unneeded == {2}


def test_the_driver_keeps_nothing_of_what_was_copied() -> None:
    with opened(2) as cluster:
        x = tw.evaluate(tw.asarray(start()).relayout(0))
        want, most = start(), 0
        for k in range(200):
            sent = numpy.full((20, 3), k * 0.5)
            x = tw.evaluate(x * 0.5 + tw.asarray(sent))
            want = want * 0.5 + sent
            most = max(most, cluster.log.nbytes)
        numpy.testing.assert_allclose(numpy.asarray(x), want)
        assert 0 < most < 100 * want.nbytes


def test_copies_that_nobody_needs_go() -> None:
    with opened(2) as cluster:
        x = steps(tw.asarray(start()).relayout(0), 80)
        cluster.settle()
        held = [len(copies) for copies in cluster.wait(cluster.call_all("holds"))]
        x = steps(x, 80)
        cluster.settle()
        assert max(len(copies) for copies in cluster.wait(cluster.call_all("holds"))) <= max(held) + 4 <= 16


def test_what_comes_from_a_file_is_read_again() -> None:
    with opened(2) as cluster:
        x = tw.evaluate(from_source(Grown((40, 30), (16, 30))))
        y = steps(tw.asarray(start()).relayout(0), 100)
        numbers = tw.evaluate(tw.arange(1000.0) * 2)
        cluster.settle()
        assert any(e.rooted for e in cluster.log) and cluster.counters.copies
        cluster.kill(process_of(cluster, 0))
        numpy.testing.assert_array_equal(numpy.asarray(x), elements((40, 30), "f8"))
        numpy.testing.assert_allclose(numpy.asarray(y), steps(start(), 100), atol=1e-12)
        numpy.testing.assert_array_equal(numpy.asarray(numbers), numpy.arange(1000.0) * 2)


def test_neighbours_that_are_lost_at_once() -> None:
    with opened(3) as cluster:
        lost = steps(tw.asarray(start()).relayout(0), 100)
        made = tw.evaluate(tw.arange(60.0).reshape(20, 3))
        cluster.settle()
        assert cluster.log.kept()
        cluster.copies_blocks = False
        late = tw.evaluate(tw.asarray(start()) + 1)  # after the last copy: the driver still has what it was made of
        cluster.settle()
        cluster.copies_blocks = True
        for h in (process_of(cluster, 0), process_of(cluster, 1)):
            cluster.kill(h)
        for use in (lambda: numpy.asarray(lost), lambda: tw.evaluate(lost + 1), lambda: numpy.asarray(lost * 2)):
            with pytest.raises(TilewiseError, match="lost with the process that held it and the one that had its copy"):
                use()
        numpy.testing.assert_array_equal(numpy.asarray(late), start() + 1)
        numpy.testing.assert_array_equal(numpy.asarray(made), numpy.arange(60.0).reshape(20, 3))
        y = steps(tw.asarray(start()).relayout(0), 50)  # the session goes on
        numpy.testing.assert_allclose(numpy.asarray(y), steps(start(), 50), atol=1e-12)
        counters = cluster.counters
        assert counters.network_bytes == counters.predicted_bytes


@pytest.mark.parametrize("workers", [1, 2])
def test_the_driver_keeps_the_copies_of_a_single_process(workers: int) -> None:
    with opened(workers) as cluster:
        if workers > 1:
            cluster.room = 1
            cluster.kill(process_of(cluster, 1))
        with pytest.warns(PerformanceWarning) if workers > 1 else nothing():
            x = steps(tw.asarray(start()).relayout(0), 100)
            cluster.settle()
        assert len(cluster.hosts) == 1 and len(cluster.copies) and len(cluster.log) < 100
        cluster.kill(process_of(cluster, 0))
        numpy.testing.assert_allclose(numpy.asarray(x), steps(start(), 100), atol=1e-12)


@contextmanager
def nothing() -> Iterator[None]:
    yield


# -- places -----------------------------------------------------------------------------------------------------------


def thirds(first: Callable[[], None], second: Callable[[], None]) -> Any:
    """Always the same program, as other handles could make other plans."""
    x = steps(tw.asarray(start()).relayout(0), 20)
    first()
    x = steps(x, 20)
    second()
    return steps(x, 20)


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_move_back_when_there_is_a_place(workers: int) -> None:
    with opened(workers) as cluster:
        want = numpy.asarray(thirds(lambda: None, lambda: None))
        announced = cluster.counters.network_bytes

        def lose() -> None:
            cluster.settle()
            cluster.room = workers // 2
            for h in list(cluster.hosts)[1::2]:  # no two neighbours
                cluster.kill(h)

        def give() -> None:
            assert len(cluster.hosts) == workers // 2
            cluster.room = 99

        with pytest.warns(PerformanceWarning, match="then the others take over") as told:
            x = thirds(lose, give)
        assert len(told) == 1
        cluster.settle()
        assert sorted(cluster.hosts.values()) == [(w,) for w in range(workers)] and not cluster.pending
        numpy.testing.assert_array_equal(numpy.asarray(x), want)
        counters = cluster.counters
        assert counters.network_bytes == counters.predicted_bytes == 2 * announced
        cluster.kill(process_of(cluster, 0))  # and all is as it was
        numpy.testing.assert_array_equal(numpy.asarray(x), want)


class Deaf(Threads):
    """Its new processes say where they listen, and never answer."""

    deaf = False
    silent: Address

    def places(self, hosts: Collection[int], seconds: float) -> dict[int, Address]:
        if not self.deaf:
            return super().places(hosts, seconds)
        return dict.fromkeys(hosts, self.silent)


@pytest.mark.parametrize("on_loss", ["shrink", "fail"])
def test_no_longer_than_was_said(on_loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewise.engine.network.links.CONNECT_SECONDS", 0.2)
    engine.register("threads", Deaf)
    with socket.create_server(("127.0.0.1", 0)) as server, opened(2, on_loss=on_loss) as cluster:
        cluster.silent = server.getsockname()[:2]
        x = steps(tw.asarray(start()).relayout(0), 3)
        cluster.settle()
        cluster.deaf = True
        cluster.kill(process_of(cluster, 1))
        began = time.monotonic()
        with pytest.warns(PerformanceWarning):
            if on_loss == "fail":
                with pytest.raises(TilewiseError, match="no place for others"):
                    numpy.asarray(x)
            else:
                numpy.testing.assert_allclose(numpy.asarray(x), steps(start(), 3))
        assert time.monotonic() - began < cluster.quiet_seconds + cluster.place_seconds + 1.0
        cluster.deaf = False
        x = steps(x, 3)
        numpy.testing.assert_allclose(numpy.asarray(x), steps(start(), 6))


class Flapping(Threads):
    """Its new processes take a while to start, and end before they know of the others."""

    flapping = False

    def places(self, hosts: Collection[int], seconds: float) -> dict[int, Address]:
        if self.flapping:
            time.sleep(0.3)
        return super().places(hosts, seconds)

    def _meet(self) -> None:
        new = [h for h in self.hosts if self.flapping and h >= self.mesh.workers]
        for h in new:
            self.end(h)
        if new:
            raise WorkerLost("a test ended it")
        super()._meet()


def test_all_tries_together_take_no_longer_than_was_said() -> None:
    engine.register("threads", Flapping)
    with opened(2) as cluster:
        x = steps(tw.asarray(start()).relayout(0), 3)
        cluster.settle()
        cluster.flapping = True
        cluster.kill(process_of(cluster, 1))
        began = time.monotonic()
        with pytest.warns(PerformanceWarning):
            numpy.testing.assert_allclose(numpy.asarray(x), steps(start(), 3))
        assert len(cluster.hosts) == 1
        assert time.monotonic() - began < cluster.quiet_seconds + cluster.place_seconds + 1.0


@pytest.mark.parametrize("seed", range(4))
def test_kills_while_copies_are_made(seed: int) -> None:
    random = numpy.random.default_rng(seed)
    with opened(3) as cluster, warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)  # with room for others, but little time to start
        over = threading.Event()

        def killer() -> None:
            for _ in range(4):
                if over.wait(float(random.uniform(0.02, 0.15))):
                    return
                alive = list(cluster.wires)
                try:
                    cluster.kill(alive[int(random.integers(len(alive)))])
                except (ValueError, KeyError):  # nobody is left, or it is dead already
                    continue

        thread = threading.Thread(target=killer)
        thread.start()
        try:
            x = steps(tw.asarray(start()).relayout(0), 150)
            numpy.testing.assert_allclose(numpy.asarray(x), steps(start(), 150), atol=1e-12)
            counters = cluster.counters
            assert counters.network_bytes == counters.predicted_bytes
        except TilewiseError as error:
            assert "times in a row" in str(error) or "had its copy" in str(error)
        finally:
            over.set()
            thread.join()
