"""Sessions that cannot be had, and functions that cannot be sent: an error with a cure at once, and nothing is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import tilewise as tw
from tests.engine.threads import Threads, start, steps
from tilewise import engine
from tilewise.array.session import current_session
from tilewise.engine.network import ray_address

LOCK = threading.Lock()


class Crowded(Threads):
    """A cluster with a place for one process."""

    def __init__(self, mesh: Any, options: Any) -> None:
        super().__init__(mesh, options, room=1)


@pytest.fixture(autouse=True)
def registered(same_settings_after_each_test: None) -> Iterator[None]:
    tw.config(eager_bytes=0, fallback="silent", objective="bytes")
    engine.register("threads", Threads)
    engine.register("crowded", Crowded)
    yield
    engine.unregister("threads")
    engine.unregister("crowded")


@pytest.mark.parametrize(
    "address, text",
    [
        ("127.0.0.1:1", r"no Ray cluster at '127\.0\.0\.1:1': Connection refused\. Start one there"),
        ("nobody.invalid:6379", r"no Ray cluster at 'nobody\.invalid:6379': .*\. Start one there"),
        ("127.0.0.1", r"host:port, or \"auto\", got '127\.0\.0\.1'"),
        ("127.0.0.1:many", "host:port"),
        ("127.0.0.1:99999", "host:port"),
        ("ray://127.0.0.1:10001", r"Ray's client .*got 'ray://.*address=\"auto\""),
    ],
)
def test_an_address_where_nobody_answers(address: str, text: str) -> None:
    pytest.importorskip("tilewise.engine.ray")
    began = time.monotonic()
    with pytest.raises(tw.TilewiseError, match=text):
        if address == "127.0.0.1:1":  # all the way, once
            tw.session(engine="ray", workers=2, address=address)
        ray_address.check(address)
    assert time.monotonic() - began < 2 * ray_address.CONNECT_SECONDS
    assert current_session() is None
    ray_address.check("auto")


def test_too_few_places() -> None:
    with tw.session(engine="threads", workers=2) as before:
        x = tw.evaluate(tw.arange(6.0) * 2)
        with pytest.raises(tw.TilewiseError, match=r"2 workers of 3 found no place in the cluster.*Use fewer workers"):
            tw.session(engine="crowded", workers=3)
        assert current_session() is before
        numpy.testing.assert_array_equal(numpy.asarray(x), numpy.arange(6.0) * 2)


def in_parts(between: Callable[[int], None]) -> Any:
    """Steps, and something between them."""
    x = tw.asarray(start()).relayout(0)
    for k in range(4):
        x = steps(x, 2)
        between(k)
    return x


def test_a_session_may_begin_with_fewer_and_grow() -> None:
    with tw.session(engine="threads", workers=4) as session:
        cluster: Any = session.cluster
        want = numpy.asarray(in_parts(lambda k: cluster.settle()))
        announced = cluster.counters.network_bytes
    with tw.session(engine="crowded", workers=4, least=1) as session:
        cluster = session.cluster
        assert list(cluster.hosts.values()) == [(0, 1, 2, 3)] and len(cluster.pending) == 3
        cluster.look_seconds = 0.0
        seen = []

        def nodes_join(k: int) -> None:
            cluster.settle()
            seen.append(len(cluster.hosts))
            cluster.room = (2, 9, 9, 9)[k]

        x = in_parts(nodes_join)
        assert seen == [1, 2, 4, 4]
        numpy.testing.assert_array_equal(numpy.asarray(x), want)  # the same bits
        assert not cluster.pending and sorted(cluster.hosts.values()) == [(0,), (1,), (2,), (3,)]
        assert cluster.counters.network_bytes == cluster.counters.predicted_bytes == announced
    for least in (0, 5, 1.5):
        with pytest.raises(ValueError, match="least says how many workers"):
            tw.session(engine="threads", workers=4, least=least)  # type: ignore[arg-type]


def locked(x: Any) -> Any:
    with LOCK:
        return x * 2


def test_a_function_that_cannot_be_sent() -> None:
    guard = threading.Lock()

    def guarded(x: Any) -> Any:
        with guard:
            return x + 1

    with tw.session(engine="threads", workers=2):
        x = tw.evaluate(tw.asarray(numpy.arange(6.0)).relayout(0))
        for function, name in ((guarded, r"guard \(lock\), which guarded"), (locked, "")):
            y = tw.map_tiles(function, x, dtype=float, shape=(6,))
            if not name:  # found by name on the other side: nothing of it is sent
                numpy.testing.assert_array_equal(numpy.asarray(y), numpy.arange(6.0) * 2)
                continue
            text = rf"{name} refers to, cannot be sent to workers \(TypeError.*test_bad_sessions\.py:\d+\. Make it"
            for _ in range(2):  # what was recorded is still there, and says the same again
                with pytest.raises(tw.errors.FunctionError, match=text):
                    y.compute()
        numpy.testing.assert_array_equal(numpy.asarray(x + 1), numpy.arange(6.0) + 1)
        with tw.session():
            numpy.testing.assert_array_equal(numpy.asarray(tw.map_tiles(guarded, x)), numpy.arange(6.0) + 1)
