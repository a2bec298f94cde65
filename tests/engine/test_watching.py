"""What is seen while a program runs: how far it is, what each worker did; and that it can be stopped."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.engine.threads import Threads, process_of, start, steps
from tilewise import engine, events
from tilewise.engine.stream import values
from tilewise.observe import progress


@pytest.fixture(autouse=True)
def registered(same_settings_after_each_test: None) -> Iterator[None]:
    tw.config(eager_bytes=0, fallback="silent", objective="bytes")
    engine.register("threads", Threads)
    yield
    engine.unregister("threads")


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Everything that is said about how far work is."""
    seen: list[tuple[Any, ...]] = []

    class Watched(events.Activity):
        def reach(self, *told: Any) -> None:
            super().reach(*told)
            if told[2]:
                seen.append(told)

    monkeypatch.setattr(events, "activity", Watched())
    return seen


def test_workers_say_how_far_they_are(reached: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewise.engine.host.TOLD_SECONDS", -1.0)
    with tw.session(engine="threads", workers=2) as session:
        x = tw.asarray(start()).relayout(0)
        y = tw.evaluate((x - x.mean(0)) / x.std(0))
        session.cluster.settle()  # type: ignore[union-attr]
        np.testing.assert_allclose(np.asarray(y), (start() - start().mean(0)) / start().std(0))
    assert reached and all(what == "step" and 0 < done <= total for what, done, total, _ in reached)
    assert max(nbytes for *_, nbytes in reached) > 0


def test_blocks_that_take_turns_are_counted(reached: list[Any], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(200_000.0).reshape(-1, 10))
    with tw.session(memory="300kB") as session:
        float(tw.open(tmp_path / "x.npy").sum())
        assert [done for _, done, _, _ in reached] == list(range(session.disk.blocks))
    assert all(what == "block" and total == len(reached) for what, _, total, _ in reached)


def test_workers_whose_blocks_take_turns_say_so(
    reached: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewise.engine.host.TOLD_SECONDS", -1.0)
    np.save(tmp_path / "x.npy", np.arange(20_000.0).reshape(-1, 10))
    with tw.session(engine="threads", workers=2, memory="60kB") as session:
        float(tw.open(tmp_path / "x.npy").sum())
        assert session.disk.blocks > 2
    assert reached and all(what == "step" and 0 <= done < total for what, done, total, _ in reached)
    assert max(nbytes for *_, nbytes in reached) > 0


def test_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events.activity, "began", 100.0)
    events.activity.reach("step", 0, 4, 10)
    assert progress.line(102.0) == "tilewise: step 1 of 4, 2.0 s"
    events.activity.reach("block", 3, 4, 2_500_000)
    assert progress.line(106.0) == "tilewise: block 4 of 4, 2.5 MB, 6.0 s, about 2.0 s left"
    events.activity.reach("", 0, 0, 0)
    assert not progress.in_notebook()
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert progress.in_notebook()


def test_a_profile_says_what_each_worker_did(tmp_path: Path) -> None:
    with tw.session(engine="threads", workers=2) as session:
        cluster: Any = session.cluster
        cluster.quiet_seconds = 10.0
        x = steps(tw.asarray(start()).relayout(0), 2)
        with tw.profile() as p:
            x = steps(x, 2)
            cluster.kill(process_of(cluster, 1))
            x = steps(x, 2)
        assert p.retries and "lost workers were brought back" in str(p)  # threads hear each other's events, too
    with tw.session(engine="virtual", workers=2):
        x = tw.asarray(start()).relayout(0)
        with tw.profile() as p:
            x = steps(x, 2)
        rows = p.workers
        assert not p.retries
        assert [row.worker for row in rows] == [0, 1] and "idle" in str(p)
        assert sum(row.network_bytes for row in rows) == p.network_bytes > 0
        for row in rows:
            parts = row.busy_seconds, row.exchange_seconds, row.idle_seconds
            assert min(parts) >= 0 and row.busy_seconds > 0 and sum(parts) <= p.seconds
    np.save(tmp_path / "x.npy", np.arange(200_000.0).reshape(-1, 10))
    with tw.session(memory="500kB") as session, tw.profile() as p:
        tw.evaluate(tw.sort(tw.open(tmp_path / "x.npy").ravel()))
        (row,) = p.workers
        assert row.read_bytes == session.disk.read_bytes > 0 and row.spilled_bytes == session.disk.spilled_bytes > 0


def test_blocks_that_take_turns_can_be_stopped(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((4000, 10)))

    calls = []

    def stopped(x: Any) -> Any:
        calls.append(x.shape)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return x * 2

    with tw.session(memory="40kB"):
        y = tw.map_tiles(stopped, tw.open(tmp_path / "x.npy"), dtype=float, shape=(4000, 10)).sum()
        with pytest.raises(KeyboardInterrupt):
            y.compute()
        assert len(calls) == 3  # no block after it
        assert float(y) == 80_000.0
        assert float(tw.open(tmp_path / "x.npy").sum()) == 40_000.0


@pytest.mark.parametrize("lost", [False, True])
def test_blocks_that_take_turns_on_workers_can_be_stopped(
    lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers do not go on with what was given up, or what must begin anew as one of them is gone."""
    monkeypatch.setattr("tilewise.engine.host.TOLD_SECONDS", -1.0)
    for name in "xy":
        np.save(tmp_path / f"{name}.npy", np.ones((8000, 10)))
    read, begun, gate, real = [0, 0], threading.Event(), threading.Event(), values._read

    def slow(source: Any, box: Any, out: Any, how: Any) -> None:
        if source.path.endswith("x.npy"):
            half = int(box[0][0] >= 4000)
            read[half] += 1
            if min(read) >= 3:
                begun.set()
            if read[half] >= 3:  # neither comes far before the other has begun
                assert gate.wait(30.0)
        real(source, box, out, how)

    monkeypatch.setattr(values, "_read", slow)
    with tw.session(engine="threads", workers=2, memory="60kB") as session:
        cluster: Any = session.cluster
        cluster.quiet_seconds = 10.0
        if lost:

            def lose() -> None:
                begun.wait(30.0)
                cluster.kill(list(cluster.hosts)[1])

            def voided(host: int) -> None:
                void(host)
                gate.set()

            void = cluster._void
            monkeypatch.setattr(cluster, "_void", voided)
            loser = threading.Thread(target=lose)
            loser.start()
            try:
                assert float(tw.open(tmp_path / "x.npy").sum()) == 80_000.0
            finally:
                begun.set()
                gate.set()
                loser.join()  # before the session ends: what it says belongs to this test
            assert cluster.counters.replays == 1
            most = session.disk.blocks * 3 // 4  # a second time, and what was under way
            assert read[0] < most, (read, session.disk.blocks)
        else:

            def looked(seconds: float | None = None) -> bool:
                if begun.is_set() and not gate.is_set() and cluster.under_way:
                    signal.raise_signal(signal.SIGINT)  # between two messages: within one, its process counts as lost
                return look(seconds)

            look = cluster.lines.progress
            monkeypatch.setattr(cluster.lines, "progress", looked)
            with pytest.raises(KeyboardInterrupt):
                float(tw.open(tmp_path / "x.npy").sum())
            gate.set()
            assert float(tw.open(tmp_path / "y.npy").sum()) == 80_000.0
            assert sum(read) < session.disk.blocks // 2 and cluster.counters.replays == 0
