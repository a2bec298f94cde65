"""Workers of a virtual cluster that are lost at any call: values are NumPy's, and as many bytes are counted."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import tilewise as tw
from tests.engine.programs import conjugate_gradient, data, jacobi, same, talking
from tests.store.toys import Grown, elements
from tilewise.array.handle import from_source
from tilewise.engine.hosts import WorkerLost
from tilewise.engine.network.transport import Mailbox, PeerLost, Tag
from tilewise.engine.recovery.replay_log import Log
from tilewise.engine.recovery.revive import REVIVALS
from tilewise.engine.virtual import Virtual
from tilewise.errors import TilewiseError
from tilewise.layout import Mesh


@pytest.fixture(autouse=True)
def everything_recorded(same_settings_after_each_test: None) -> None:
    tw.config(eager_bytes=0, fallback="silent", objective="bytes")  # by time, small arrays would be replicated


class Mortal(Virtual):
    """A virtual cluster that loses a worker at given calls, or when given messages are sent."""

    mortal = True

    def __init__(self, mesh: Mesh) -> None:
        super().__init__(mesh)
        self.calls, self.fatal = 0, set[int]()
        self.host.transport = Leaky(self)

    def dies(self) -> bool:
        self.calls += 1
        return self.calls in self.fatal

    def call(self, host: int, method: str, *args: Any) -> Any:
        if self.dies():
            self.host.reset(self.hosts[0])  # what it held is gone
            raise WorkerLost("a test ended it")
        return super().call(host, method, *args)


class Leaky(Mailbox):
    def __init__(self, cluster: Mortal) -> None:
        super().__init__()
        self.cluster = cluster

    def send(self, sender: int, receiver: int, tag: Tag, pieces: Any) -> None:
        if self.cluster.dies():
            raise PeerLost("a test ended it")
        super().send(sender, receiver, tag, pieces)


@pytest.fixture
def mortal() -> Iterator[Mortal]:
    with tw.session(engine="virtual", workers=3) as made:
        made.cluster = Mortal(Mesh(3))
        yield made.cluster


def test_a_worker_may_be_lost_at_any_call(mortal: Mortal) -> None:
    want = jacobi(numpy, 2), conjugate_gradient(numpy)
    same(jacobi(tw, 2), want[0])  # teaches the plans
    mortal.calls, before = 0, mortal.counters.predicted_bytes
    same(jacobi(tw, 2), want[0])
    count, predicted = mortal.calls, mortal.counters.predicted_bytes - before
    for fatal in range(1, count + 1):
        mortal.calls, mortal.fatal = 0, {fatal}
        before, again = mortal.counters.network_bytes, mortal.counters.replays
        same(jacobi(tw, 2), want[0])
        assert mortal.counters.network_bytes - before == predicted
        reached = mortal.calls >= fatal  # workers are told what to drop when the collector has come by: calls vary
        assert mortal.counters.replays == again + reached and (reached or fatal > count - mortal.mesh.workers)
    mortal.calls, mortal.fatal = 0, {20, 61}
    same(conjugate_gradient(tw), want[1])
    gc.collect()
    mortal.sweep()
    assert not mortal.log and not mortal.log.maker and not any(mortal.host.stored().values())


def test_a_lost_worker_reads_its_source_again(mortal: Mortal) -> None:
    x = from_source(Grown((40, 30), (16, 30)))
    want = elements((40, 30), "f8")
    y = tw.evaluate(x * 2)
    mortal.fatal = {mortal.calls + 1}
    same(y + x, want * 3)
    assert mortal.counters.replays == 1


def test_a_worker_may_be_lost_while_workers_talk(mortal: Mortal) -> None:
    want = talking(numpy)
    same(talking(tw), want)
    mortal.calls = 0
    same(talking(tw), want)
    for fatal in range(1, mortal.calls + 1, 7):
        mortal.calls, mortal.fatal = 0, {fatal}
        same(talking(tw), want)


def test_a_plan_that_workers_do_not_survive_is_given_up(mortal: Mortal) -> None:
    x = tw.arange(30.0) + 1
    tw.evaluate(x)
    mortal.fatal = set(range(mortal.calls + 1, mortal.calls + 1000))
    with pytest.raises(TilewiseError, match=f"lost {REVIVALS + 1} times in a row"):
        (x * 2).compute()
    mortal.fatal = set()
    same(x, numpy.arange(30.0) + 1)


def test_a_long_loop_needs_no_more_memory_to_replay(mortal: Mortal) -> None:
    x = tw.asarray(data(64))
    for _ in range(50):
        x = x * 0.5 + 1.0
        tw.evaluate(x)
    most = 0
    real = mortal.call

    def watching(*args: Any, **options: Any) -> Any:
        nonlocal most
        most = max(most, *map(len, mortal.host.stored().values()))
        return real(*args, **options)

    mortal.call = watching  # type: ignore[method-assign]
    mortal.broken = True
    (x + 0).compute()
    assert mortal.counters.replays == 1 and most <= 3


def test_the_log_keeps_one_copy_of_what_is_sent_again() -> None:
    log, x = Log(), data(1000)
    first = log.keep(x)
    assert first is not x and log.keep(x) is first
    x[0] = -x[0]
    second = log.keep(x)
    assert second is not first and second[0] == x[0] != first[0]
    del first, second
    assert not log.copies
