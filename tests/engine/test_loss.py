"""Lost processes, with and without a place for others, on real connections between threads: right, or the stated
error; never hung."""

from __future__ import annotations

import gc
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import pytest

import tilewise as tw
from tests.engine.threads import Threads, process_of, start, steps
from tilewise import engine
from tilewise.errors import ConfigError, PerformanceWarning, TilewiseError

SECONDS = 30.0  # a test that takes longer hangs


@pytest.fixture(autouse=True)
def registered(same_settings_after_each_test: None) -> Iterator[None]:
    tw.config(eager_bytes=0, fallback="silent", objective="bytes")
    engine.register("threads", Threads)
    yield
    engine.unregister("threads")


@contextmanager
def opened(workers: int, **options: Any) -> Iterator[Any]:
    with tw.session(engine="threads", workers=workers, **options) as session:
        yield session.cluster


@contextmanager
def in_time() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SECONDS


def test_without_losses() -> None:
    with opened(3) as cluster:
        x = steps(tw.asarray(start()).relayout(0), 5)
        numpy.testing.assert_allclose(numpy.asarray(x), steps(start(), 5))
        counters = cluster.counters
        assert counters.network_bytes == counters.predicted_bytes > 0 and not counters.replays
        assert len(cluster.hosts) == 3


@pytest.mark.parametrize("on_loss", engine.ON_LOSS)
@pytest.mark.parametrize("victims", [[0], [2], [0, 1], [0, 1, 2]])
def test_lost_processes_are_replaced(on_loss: str, victims: list[int]) -> None:
    with opened(3, on_loss=on_loss) as cluster, in_time(), warnings.catch_warnings():
        warnings.simplefilter("error")
        cluster.quiet_seconds = 10.0  # as on Ray: a first start may take longer than the tests wait for a place
        x = steps(tw.asarray(start()).relayout(0), 3)
        for v in victims:
            cluster.kill(process_of(cluster, v))
        x = steps(x, 3)
        numpy.testing.assert_allclose(numpy.asarray(x), steps(start(), 6))
        counters = cluster.counters
        assert counters.replays == 1 and counters.network_bytes == counters.predicted_bytes
        assert sorted(w for ws in cluster.hosts.values() for w in ws) == [0, 1, 2]


def test_the_others_take_in_workers_that_have_no_place() -> None:
    with opened(4) as cluster, in_time():
        x = tw.asarray(start()).relayout(0)
        for _ in range(3):
            x = steps(x, 3)
        want = numpy.asarray(x)
        x = steps(tw.asarray(start()).relayout(0), 3)
        before = cluster.counters.network_bytes
        cluster.room = 3
        cluster.kill(process_of(cluster, 1))
        with pytest.warns(PerformanceWarning, match="no place in the cluster") as told:
            x = steps(x, 3)
            cluster.settle()
        assert len(told) == 1 and "then the others take over" in str(told[0].message)
        assert sorted(len(ws) for ws in cluster.hosts.values()) == [1, 1, 2]
        cluster.room = 1
        for h in list(cluster.hosts)[1:]:
            cluster.kill(h)
        x = steps(x, 3)  # told already
        numpy.testing.assert_array_equal(numpy.asarray(x), want)  # the same bits
        assert len(cluster.hosts) == 1
        counters = cluster.counters
        assert counters.network_bytes == counters.predicted_bytes > before
        cluster.room = 9
        cluster.kill(process_of(cluster, 0))
        numpy.testing.assert_array_equal(numpy.asarray(x), want)


def test_a_session_that_should_fail_does_so_each_time_until_there_is_a_place() -> None:
    with opened(2, on_loss="fail") as cluster, in_time():
        x = steps(tw.asarray(start()).relayout(0), 3)
        cluster.settle()
        cluster.room = 1
        cluster.kill(process_of(cluster, 1))
        with pytest.warns(PerformanceWarning, match="then giving up"):
            for _ in range(3):  # the second use must not hang, nor show an internal error
                with pytest.raises(TilewiseError, match="1 workers of 2 were lost, and there is no place"):
                    numpy.asarray(x + 1)
        cluster.room = 2
        numpy.testing.assert_allclose(numpy.asarray(x), steps(start(), 3))


def test_a_session_may_wait_for_a_place() -> None:
    with opened(2, on_loss="wait") as cluster, in_time():
        x = steps(tw.asarray(start()).relayout(0), 3)
        cluster.room = 1
        cluster.kill(process_of(cluster, 0))
        timer = threading.Timer(1.5, lambda: setattr(cluster, "room", 2))
        timer.start()
        with pytest.warns(PerformanceWarning, match="Waiting until there is one"):
            numpy.testing.assert_allclose(numpy.asarray(x), steps(start(), 3))
        assert len(cluster.hosts) == 2


def test_nobody_is_left() -> None:
    with opened(2) as cluster, in_time():
        x = steps(tw.asarray(start()).relayout(0), 3)
        cluster.room = 0
        for h in list(cluster.hosts):
            cluster.kill(h)
        with pytest.warns(PerformanceWarning):
            for _ in range(2):
                with pytest.raises(TilewiseError, match="2 workers of 2 were lost"):
                    numpy.asarray(x)
        cluster.room = 2
        numpy.testing.assert_allclose(numpy.asarray(x), steps(start(), 3))


@pytest.mark.parametrize("seed", range(6))
def test_kills_at_any_moment_also_while_workers_are_brought_back(seed: int) -> None:
    random = numpy.random.default_rng(seed)
    with opened(3, on_loss="shrink") as cluster, in_time(), warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)
        over = threading.Event()

        def killer() -> None:
            for _ in range(5):
                if over.wait(float(random.uniform(0.0, 0.05))):
                    return
                if seed % 2:
                    cluster.room = int(random.integers(1, 4))
                alive = list(cluster.wires)
                try:
                    cluster.kill(alive[int(random.integers(len(alive)))])
                except (ValueError, KeyError):  # nobody is left, or it is dead already
                    continue

        thread = threading.Thread(target=killer)
        thread.start()
        try:
            x = steps(tw.asarray(start()).relayout(0), 40)
            numpy.testing.assert_allclose(numpy.asarray(x), steps(start(), 40), atol=1e-12)
            counters = cluster.counters
            assert counters.network_bytes == counters.predicted_bytes
        except TilewiseError as error:
            stated = ("times in a row", "had its copy", "no place for others")  # killed again and again
            assert any(words in str(error) for words in stated)
        finally:
            over.set()
            thread.join()


def test_a_setting_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="shrink, wait, fail"):
        tw.session(engine="virtual", workers=2, on_loss="cry")


class Wrong(ValueError):
    def __init__(self, code: int, *, text: str) -> None:
        super().__init__(text)
        self.code = code


def raising(x: Any) -> Any:
    if (x > 30).any():
        raise Wrong(3, text="too large")
    return x


def test_a_users_exception_keeps_its_class_and_fields_and_shows_the_workers_traceback() -> None:
    with opened(2):
        x = tw.evaluate(tw.asarray(numpy.arange(40.0)).relayout(0))
        y = tw.map_tiles(raising, x)
        for _ in range(2):
            with pytest.raises(Wrong) as caught:
                y.compute()
            assert caught.value.code == 3 and str(caught.value) == "too large"
            assert any("recorded at" in note and __file__ in note for note in caught.value.__notes__)
            assert "in raising" in str(caught.value.__cause__) and "worker 1" in str(caught.value.__cause__)
        numpy.testing.assert_array_equal(numpy.asarray(x), numpy.arange(40.0))


def test_an_error_that_nobody_waited_for_comes_at_the_next_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewise.engine.cluster.never_fails", lambda plan: True)
    with opened(3) as cluster:
        x = tw.evaluate(tw.asarray(numpy.arange(12.0)).relayout(0))
        index = tw.arange(12) + 5  # some are out of range, which only workers find out
        bad = tw.evaluate(x[index] * 2)
        line = "test_loss.py"
        after = tw.evaluate(bad + 1)  # reads what was never made
        other = tw.evaluate(tw.asarray(numpy.arange(3.0)) + 1)
        with pytest.raises(IndexError) as caught:
            numpy.asarray(other)
        assert any("recorded at" in note and line in note for note in caught.value.__notes__)
        numpy.testing.assert_array_equal(numpy.asarray(other), numpy.arange(3.0) + 1)  # told once
        numpy.testing.assert_array_equal(numpy.asarray(x + 1), numpy.arange(12.0) + 1)
        for each in (bad, after, bad * 3):
            with pytest.raises(IndexError):
                numpy.asarray(each)
        cluster.broken = True  # what failed is not run again
        numpy.testing.assert_array_equal(numpy.asarray(x), numpy.arange(12.0))
        assert cluster.counters.network_bytes == cluster.counters.predicted_bytes
        del bad, after, other, index, x, each, caught
        gc.collect()
        cluster.sweep()
        assert not cluster.log and not cluster.failed and not cluster.under_way


def test_an_interrupt_while_the_driver_waits() -> None:
    with opened(2) as cluster, in_time():
        x = tw.evaluate(tw.asarray(numpy.arange(40.0)).relayout(0))
        y = tw.map_tiles(slow, x, dtype=float, shape=(40,))
        timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            y.compute()
        numpy.testing.assert_array_equal(numpy.asarray(x + 1), numpy.arange(40.0) + 1)
        numpy.testing.assert_array_equal(numpy.asarray(y), numpy.arange(40.0) * 2)
        assert cluster.counters.replays == 0


def slow(x: Any) -> Any:
    time.sleep(1.0)
    return x * 2
