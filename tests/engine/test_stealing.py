"""Idle workers compute blocks of busy ones: right, the same bits, bytes apart, in less time; losses and errors too."""

from __future__ import annotations

import select
import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.engine.test_wire import pair, pump  # noqa: F401  (a fixture)
from tests.engine.threads import Threads, process_of, start, steps
from tilewise import engine
from tilewise.engine.network.wire import DONE, FAILED, Wire
from tilewise.engine.stealing import Job, Sharing
from tilewise.errors import PerformanceWarning
from tilewise.layout import DRIVER

BLOCKS, SECONDS = 8, 0.03  # of each worker, of each block that takes long


@pytest.fixture(autouse=True)
def registered(same_settings_after_each_test: None) -> Iterator[None]:
    tw.config(eager_bytes=0, fallback="silent", objective="bytes", blocks=BLOCKS)
    engine.register("threads", Threads)
    yield
    engine.unregister("threads")


def slow(x: Any) -> Any:
    """As long as the numbers say."""
    time.sleep(SECONDS * abs(float(x[0, 0])))
    if x[0, 0] < 0:
        raise ValueError("a number that it does not like")
    return np.sin(x) + x[:, :1]


def costs(*heavy: float) -> Any:
    """By worker: what its blocks cost. One row for each block."""
    return np.repeat(np.asarray(heavy, float), BLOCKS)[:, None] + np.zeros((1, 3))


def program(x: Any) -> Any:
    y = tw.map_tiles(slow, x, dtype=float, shape=x.shape)
    return tw.evaluate(y, y.sum(0), (y * y).sum())


def test_a_busy_worker_is_helped() -> None:
    with tw.session(engine="threads", workers=2) as session:
        cluster: Any = session.cluster
        even, uneven = (tw.evaluate(tw.asarray(costs(*c)).relayout(0)) for c in ((0.5, 0.5), (1, 0)))
        program(even)  # plans and code
        before = cluster.counters.network_bytes
        got = [np.asarray(v) for v in program(uneven)]
        moved, stolen = cluster.counters.network_bytes - before, cluster.counters.stolen_blocks
        assert stolen >= 2 and cluster.counters.stolen_bytes >= stolen * 2 * 3 * 8
        assert cluster.counters.network_bytes == cluster.counters.predicted_bytes
        with tw.profile() as profile:
            again = [np.asarray(v) for v in program(uneven)]
        assert sum(e.bytes for e in profile.timeline if e.kind == "stolen") > 0
        for a, b in zip(got, again, strict=True):
            assert a.tobytes() == b.tobytes()
    with tw.session(engine="virtual", workers=2) as session:  # where nobody is idle
        apart: Any = session.cluster
        x = tw.evaluate(tw.asarray(costs(1, 0)).relayout(0))
        before = apart.counters.network_bytes
        for a, b in zip(got, program(x), strict=True):
            assert a.tobytes() == np.asarray(b).tobytes()
        assert apart.counters.network_bytes - before == moved


def test_quick_blocks_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewise.engine.stealing.LEAST_SECONDS", 1e9)
    with tw.session(engine="threads", workers=3) as session:
        x = steps(tw.asarray(start()).relayout(0), 4)
        np.testing.assert_allclose(np.asarray(x), steps(start(), 4))
        counters: Any = session.cluster.counters  # type: ignore[union-attr]
        assert counters.stolen_blocks == 0 and counters.network_bytes == counters.predicted_bytes


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_all_hand_out_all_they_can(seed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody gives half of its blocks away, idle or not, also to those who wait for it: no bit changes."""
    monkeypatch.setattr("tilewise.engine.stealing.LEAST_SECONDS", 0.0)
    monkeypatch.setattr("tilewise.engine.stealing.WORTH", 0.0)
    monkeypatch.setattr(Wire, "idle", lambda self, purpose: sorted(w for w in self.links if w != DRIVER))

    def run(engine: str) -> tuple[list[Any], Any]:
        with tw.session(engine=engine, workers=3) as session:
            layouts = nullcontext() if seed is None else tw.testing.random_layouts(seed)
            with layouts:
                x = steps(tw.asarray(start()).relayout(0), 3)
                z = (x - x.mean(0)) / x.std(0)
                made = [z, z.T @ z, np.exp(x[:, ::-1]).cumsum(0), tw.sort(x, axis=0), x[x[:, 0] > 0].sum(0)]
                got = [np.asarray(v) for v in tw.evaluate(*made)]
            assert session.cluster is not None
            return got, session.cluster.counters

    (got, counters), (want, apart) = run("threads"), run("virtual")
    for a, b in zip(got, want, strict=True):
        assert a.tobytes() == b.tobytes() and a.strides == b.strides
    assert counters.stolen_blocks > 10 and not counters.replays
    assert counters.network_bytes == apart.network_bytes


def test_errors_and_losses_while_others_help() -> None:
    bad = costs(1, 0, 0)
    bad[BLOCKS - 1] = -1.0  # the last block of the busy worker, which somebody takes
    with tw.session(engine="threads", workers=3) as session:
        cluster: Any = session.cluster
        cluster.quiet_seconds = 10.0
        x, good = (tw.evaluate(tw.asarray(v).relayout(0)) for v in (bad, costs(1, 0, 0)))
        with pytest.raises(ValueError, match="does not like") as caught:
            program(x)
        assert any("test_stealing.py" in note for note in caught.value.__notes__)
        want = [np.sin(costs(1, 0, 0)) + costs(1, 0, 0)[:, :1]]
        np.testing.assert_allclose(np.asarray(program(good)[0]), want[0])
        y = tw.map_tiles(slow, good + 0, dtype=float, shape=good.shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerformanceWarning)
            cluster.settle()
            cluster.kill(process_of(cluster, 1))  # it would have helped
            np.testing.assert_allclose(np.asarray(y), want[0])
        assert cluster.counters.replays == 1


def test_blocks_of_a_run_that_was_given_up_are_left(
    pair: tuple[Wire, Wire],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever has taken many blocks looks before each of them; results that nobody waits for are not kept."""
    taker, owner = (Sharing(wire, {}) for wire in pair)
    computed: list[int] = []

    def made(job: Job, pieces: Any) -> list[Any]:
        computed.append(job.block)
        if len(computed) == 2:
            owner.wire.post(0, (FAILED, 0, 7))
            assert select.select([taker.wire.links[1].sock], [], [], 30.0)[0]
        return [np.ones(3)]

    monkeypatch.setattr(taker, "_made", made)
    tickets = [owner.give(0, 7, Job(1, 0, -1, block, "numpy", ()), {}) for block in range(6)]
    pump([taker.wire])
    taker.wire.do_jobs()
    pump([owner.wire])
    assert computed == [0, 1]
    assert [bool(owner.wire.results[t]) for t in tickets] == [True, True, False, False, False, False]
    owner.begin()
    taker.wire.post(1, (DONE, 0, tickets[5][1], [np.ones(3)]))
    pump([owner.wire])
    assert not owner.wire.results
