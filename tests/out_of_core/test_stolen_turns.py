"""Idle workers take turns of busy ones within memory=: the same bits, bytes as announced, those of stealing apart."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.engine.threads import Threads, process_of
from tests.store.toys import Grown, elements
from tilewise import engine
from tilewise.array.handle import from_source
from tilewise.engine.network.wire import Wire
from tilewise.engine.stealing import Sharing
from tilewise.engine.stream.lending import LoopLending
from tilewise.engine.stream.run import Share
from tilewise.errors import PerformanceWarning

NAMES = count(90_000)
SHAPE, MEMORY, WAIT = (801, 40), 50_000, 30.0  # 256,320 bytes
WIDE: Any = elements((40, 24), "f8")


@pytest.fixture(autouse=True)
def registered(same_settings_after_each_test: None) -> Iterator[None]:
    tw.config(eager_bytes=0, fallback="silent", native=False)
    engine.register("threads", Threads)
    yield
    engine.unregister("threads")


def opened(shape: tuple[int, ...] = SHAPE) -> Any:
    return from_source(Grown(shape, (16, *shape[1:]), "f8", name=next(NAMES)))


class Slow:
    """The first worker computes no block before all others have nothing to do: no clock is looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.idle: dict[int, object] = {}
        self.holds = True
        self.changed = threading.Condition()
        self.turns: list[tuple[int, int]] = []  # who took one, and in which loop
        say, block, turn = Wire._say_idle, Share._block, LoopLending._turn

        def says(wire: Wire, idle: bool) -> None:
            say(wire, idle)
            with self.changed:
                self.idle[wire.me] = wire.purpose if idle else None
                self.changed.notify_all()

        def computes(share: Share, loop: Any, steps: Any, number: int, arrays: Any) -> Any:
            mine = next(k for k, x in enumerate(share.streams.loops) if x.order == loop.order and x == loop)
            lending = share.lending
            if share.worker == 0 and lending is not None and share.shares.anyones(mine):
                purpose, others = (lending.run, mine), share.shares.workers - 1
                with self.changed:
                    ready = lambda: not self.holds or [*self.idle.values()].count(purpose) >= others  # noqa: E731
                    assert self.changed.wait_for(ready, WAIT)
            return block(share, loop, steps, number, arrays)

        def takes(lent: LoopLending, number: int, *rest: Any) -> Any:
            self.turns.append((lent.worker, lent.index))
            return turn(lent, number, *rest)

        monkeypatch.setattr(Wire, "_say_idle", says)
        monkeypatch.setattr(Share, "_block", computes)
        monkeypatch.setattr(LoopLending, "_turn", takes)
        monkeypatch.setattr("tilewise.engine.stealing.LEAST_SECONDS", 0.0)
        monkeypatch.setattr("tilewise.engine.stealing.WORTH", 0.0)

    def let_go(self) -> None:
        """The first worker waits for nobody any more."""
        with self.changed:
            self.holds = False
            self.changed.notify_all()


def standardised(np: Any, x: Any) -> Any:
    return (x - x.mean(0)) / x.std(0)


# By name: the program, and how many loops there are whose blocks any worker can read.
PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "sum": (lambda np, x: x.sum(0), 1),
    "Gram": (lambda np, x: x.T @ x, 1),
    "standardise": (standardised, 3),
    "rows": (lambda np, x: standardised(np, x).max(1), 3),
    "product": (lambda np, x: x @ np.asarray(WIDE) + x[:, :1], 1),
}


def run(name: str, kind: str, workers: int) -> tuple[Any, Any, Any]:
    memory = 2 * MEMORY if name == "Gram" else MEMORY  # blocks stay where there is no room for what they contribute
    with tw.session(engine=kind, workers=workers, memory=memory) as session:
        y = PROGRAMS[name][0](tw, opened())
        plan = tw.explain(y)
        tw.evaluate(y)
        disk: Any = session.disk
        counters: Any = session.cluster.counters  # type: ignore[union-attr]
        assert disk.read_bytes == plan.read_bytes and counters.network_bytes == plan.network_bytes
        assert (disk.spilled_bytes, disk.restored_bytes) == (plan.spilled_bytes, plan.restored_bytes)
        assert disk.peak_bytes <= memory
        return np.asarray(y), disk, counters


@pytest.mark.parametrize("name", PROGRAMS)
def test_idle_workers_take_turns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = 3 if name in ("sum",) else 2
    want, _, apart = run(name, "virtual", workers)
    slow = Slow(monkeypatch)
    got, _, counters = run(name, "threads", workers)
    assert got.tobytes() == want.tobytes() and got.strides == want.strides
    np.testing.assert_allclose(got, PROGRAMS[name][0](np, elements(SHAPE, "f8")), rtol=1e-11)
    assert {w for w, _ in slow.turns} == {*range(1, workers)} and counters.stolen_blocks == len(slow.turns)
    assert {loop for _, loop in slow.turns} == {*range(PROGRAMS[name][1])}
    assert counters.network_bytes == apart.network_bytes and not counters.replays
    assert counters.stolen_bytes >= 8 * len(slow.turns)


def stored(path: Path, kind: str) -> tuple[bytes, Any, Any]:
    with tw.session(engine=kind, workers=2, memory=MEMORY) as session:
        standardised(tw, opened()).store(path)
        disk: Any = session.disk
        assert disk.read_bytes == disk.predicted_read_bytes and disk.written_bytes == 8 * 801 * 40
        assert disk.spilled_bytes == disk.predicted_spilled_bytes and disk.peak_bytes <= MEMORY
        return path.read_bytes(), session.cluster.counters, disk  # type: ignore[union-attr]


@pytest.mark.parametrize("fails", [False, True])
def test_who_takes_a_turn_writes_to_the_sink_unless_it_fails(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want, apart, _ = stored(tmp_path / "a.npy", "virtual")
    slow = Slow(monkeypatch)
    writes: list[int] = []
    give = LoopLending._give

    def gives(lent: LoopLending, block: int, made: Any, send: Any) -> None:
        give(lent, block, made, send)
        writes.extend([block] if lent.values.sinks.keys() & made.keys() else [])
        if fails:
            raise OSError("no space left, and all of it has been written")

    monkeypatch.setattr(LoopLending, "_give", gives)
    got, counters, disk = stored(tmp_path / "b.npy", "threads")
    assert got == want and counters.stolen_blocks == len(slow.turns) > len(writes) > 1
    assert counters.network_bytes == apart.network_bytes
    block = disk.written_bytes // disk.blocks
    if fails:  # read and written for nothing
        assert counters.stolen_bytes > len(writes) * 3 * block // 2
    else:  # sums and parts of rows, no blocks
        assert counters.stolen_bytes < 5 * 40 * 8 * len(slow.turns) < len(writes) * block


def test_lost_while_it_takes_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    turn = LoopLending._turn
    with tw.session(engine="threads", workers=2, memory=MEMORY) as session:
        cluster: Any = session.cluster
        cluster.quiet_seconds = 10.0

        home = process_of(cluster, 1)

        def dies(lent: LoopLending, *rest: Any) -> Any:
            if home in cluster.wires:
                cluster.kill(home)
                slow.let_go()
            return turn(lent, *rest)

        monkeypatch.setattr(LoopLending, "_turn", dies)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerformanceWarning)
            got = np.asarray(opened().sum(0))
        np.testing.assert_allclose(got, elements(SHAPE, "f8").sum(0))
        assert cluster.counters.replays == 1 and slow.turns


def test_an_interrupt_while_blocks_are_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C finds a block elsewhere: what comes back of it is dropped, nothing of the run is held on to."""
    want, _, _ = run("rows", "virtual", 2)
    slow, given_up, left = Slow(monkeypatch), threading.Event(), threading.Event()
    turn, close, main = LoopLending._turn, Sharing.close, threading.main_thread().ident
    assert main is not None

    def pressed(lent: LoopLending, *rest: Any) -> Any:
        if not given_up.is_set():
            signal.pthread_kill(main, signal.SIGINT)
            assert given_up.wait(WAIT)
            slow.let_go()
            assert left.wait(WAIT)
        return turn(lent, *rest)

    def closes(sharing: Sharing) -> None:
        close(sharing)
        if given_up.is_set():  # the other one is in the middle of its turn
            left.set()

    monkeypatch.setattr(LoopLending, "_turn", pressed)
    monkeypatch.setattr(Sharing, "close", closes)
    with tw.session(engine="threads", workers=2, memory=MEMORY) as session:
        cluster: Any = session.cluster
        give_up = cluster.give_up

        def gives_up(run: int) -> None:
            give_up(run)
            given_up.set()

        monkeypatch.setattr(cluster, "give_up", gives_up)
        y = PROGRAMS["rows"][0](tw, opened())
        with pytest.raises(KeyboardInterrupt):
            tw.evaluate(y)
        cluster._answers(cluster.call_all("stored"))  # all have come to the end of it
        assert len(slow.turns) == 1  # others were handed out, too
        assert all(w.keeps is None and w.helps is None for w in cluster.wires.values())
        slow.holds = True
        taken = len(slow.turns)
        assert np.asarray(y).tobytes() == want.tobytes() and len(slow.turns) > taken
        disk: Any = session.disk
        assert disk.read_bytes == disk.predicted_read_bytes and disk.peak_bytes <= MEMORY
        assert cluster.counters.network_bytes == cluster.counters.predicted_bytes and not cluster.counters.replays
        assert not any(w.results for w in cluster.wires.values())
