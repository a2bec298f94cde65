"""Ctrl-C at any line of an evaluation on workers, many times in a row: all values stay, with the same bits, and no
connection is lost."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy
import pytest

import tilewise as tw
from tests.effort import SOME_OR_ALL
from tests.engine.test_wire import Driver, pair, pump  # noqa: F401  (a fixture)
from tests.engine.threads import Threads, process_of, start
from tilewise import engine, interrupts
from tilewise.engine.network import links as connections
from tilewise.engine.network.wire import CALL, Wire
from tilewise.interrupts import allowed, to_the_end
from tilewise.observe import progress

HERE = os.path.dirname(tw.__file__)
WATCHED = tuple(os.path.join(HERE, name) for name in ("engine", "interrupts.py", os.path.join("array", "evaluation")))
SOME = 24  # lines of an evaluation at which it is interrupted


class Lines:
    """Counts the lines of our code that the main thread runs; Ctrl-C at some of them."""

    def __init__(self, *at: int) -> None:
        self.at = at
        self.count = 0

    def __enter__(self) -> Lines:
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _call(self, frame: Any, event: str, arg: Any) -> Any:
        # Whatever is raised while an object ends, Python prints and forgets.
        ends = "__del__" in (frame.f_code.co_name, frame.f_back.f_code.co_name)
        return self._line if frame.f_code.co_filename.startswith(WATCHED) and not ends else None

    def _line(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count in self.at:
                signal.raise_signal(signal.SIGINT)
        return self._line


@pytest.fixture(params=["threads", "virtual"])
def cluster(request: pytest.FixtureRequest, same_settings_after_each_test: None) -> Iterator[Any]:
    tw.config(eager_bytes=0, fallback="silent", objective="bytes")
    engine.register("threads", Threads)
    with tw.session(engine=request.param, workers=2) as session:
        yield session.cluster
    engine.unregister("threads")


def step(x: Any, k: int) -> Any:
    """A halo, a sum over all workers, another number in each step; not evaluated yet."""
    y = x * (1.0 + k % 3)
    y[1:-1] = 0.5 * (y[:-2] + y[2:])
    return y - y.mean(0)


def interrupted(at: tuple[int, ...], look: Callable[[Any], None], y: Any) -> Iterator[None]:
    """Look at a value, with Ctrl-C at some lines.

    In a generator, which has an exception of its own that is being handled: what a trace function raises while a block
    cleans up, Python takes for handled without end, and all that its frames refer to would stay.
    """
    with Lines(*at):
        look(y)
    yield


def run(points: list[tuple[int, ...]], look: Callable[[Any], None]) -> list[bytes]:
    """A loop whose steps are interrupted at these lines: what it has seen."""
    x, seen = tw.evaluate(tw.asarray(start()).relayout(0)), []
    for k, at in enumerate(points):
        y = step(x, k)
        try:
            list(interrupted(at, look, y))
        except KeyboardInterrupt:
            look(y)  # as who presses Ctrl-C too early would
        seen += [numpy.asarray(y).tobytes(), numpy.asarray(x.sum(0)).tobytes()]
        x = tw.evaluate(y)
    return seen


def known(cluster: Any) -> set[int]:
    """The keys of values that workers have, once all that nobody needs has gone."""
    gc.collect()
    cluster.sweep()
    answers = cluster._answers(cluster.call_all("stored"))
    return {key for answer in answers for keys in answer.values() for key in keys}


LOOKS: dict[str, Callable[[Any], Any]] = {
    "evaluate": tw.evaluate,
    "here": lambda y: numpy.asarray(y + 1.0),
    "waits": lambda y: numpy.asarray(tw.sort(y, axis=0)),
}


@pytest.mark.parametrize("whole", SOME_OR_ALL)
@pytest.mark.parametrize("look", LOOKS)
def test_an_interrupt_at_any_line_changes_nothing(
    cluster: Any, look: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = known(cluster)
    total = 0

    def counted(y: Any) -> None:
        nonlocal total
        with Lines() as lines:
            LOOKS[look](y)
        total = lines.count

    run([()] * 3, counted)  # the first steps have more to do
    apart = 1 if whole else max(1, total // SOME)
    points = [(k, k + apart // 2 + 1, k + apart + 3) for k in range(1, total, apart)]
    want = run([()] * len(points), LOOKS[look])

    def pressed(number: int) -> None:
        signal.raise_signal(signal.SIGINT)  # while the last one is dealt with
        real(number)

    real = cluster.give_up
    monkeypatch.setattr(cluster, "give_up", pressed)
    links = {} if cluster.in_process else dict(cluster.lines.links)
    assert run(points, LOOKS[look]) == want
    assert cluster.in_process or dict(cluster.lines.links) == links
    counters = cluster.counters
    assert counters.replays == 0 and counters.network_bytes == counters.predicted_bytes > 0
    assert known(cluster) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler and not interrupts._State.depth
    assert not progress.under_way()


@contextmanager
def pressed_while_waiting(links: Any) -> Iterator[None]:
    """Ctrl-C as soon as the system is asked to wait."""
    real = links._poll

    class Poll:
        def poll(self, timeout: Any) -> Any:
            signal.raise_signal(signal.SIGINT)
            return real.poll(timeout)

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    links._poll = Poll()
    try:
        yield
    finally:
        links._poll = real


def test_what_an_interrupt_leaves_of_a_message_goes_later(pair: tuple[Wire, Wire]) -> None:  # noqa: F811
    wire = pair[1]
    driver = Driver(wire)
    data = numpy.arange(1_500_000.0)  # more than a connection holds
    want = data.copy()
    with pressed_while_waiting(driver), pytest.raises(KeyboardInterrupt), to_the_end():
        driver.post(1, (CALL, 0, 1, "run", (data,)))
    data[:] = 0.0  # whoever was interrupted may do so
    with pressed_while_waiting(driver), pytest.raises(KeyboardInterrupt), to_the_end():
        driver.post(1, (CALL, 0, 2, "run", (data,)))
    for _ in range(3000):
        driver.progress(0.0)
        pump([wire], 0.0)
        if len(wire._calls) == 2:
            break
    first, second = wire._calls
    assert numpy.array_equal(first.args[0], want) and not second.args[0].any()
    driver.post(1, (CALL, 0, 3, "run", ()))
    pump([wire])
    assert len(wire._calls) == 3 and not driver._unsent
    driver.close()


def press(*args: Any) -> None:
    signal.raise_signal(signal.SIGINT)


def test_interrupts_wait_for_the_end_of_a_block() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), to_the_end():
        press()
        done.append("outer")
        with suppress(KeyboardInterrupt), allowed():
            done.append("never: the noted one is raised first")
        with pytest.raises(KeyboardInterrupt), allowed(), to_the_end():
            press()
            done.append("inner")
        press()
        done.append("end")
    assert done == ["outer", "inner", "end"]
    with to_the_end(), allowed():
        done.append("nothing is left of it")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture
def handler() -> Iterator[Callable[[Any], Any]]:
    """Sets a handler of the program's own."""
    yield lambda to: signal.signal(signal.SIGINT, to)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_handler_of_the_programs_own(handler: Callable[[Any], Any]) -> None:
    calls: list[int] = []
    handler(lambda *args: calls.append(args[0]))
    with to_the_end():
        press()
        press()
        assert not calls
        with allowed():
            assert len(calls) == 2  # each counts: some programs end at the second one
            press()
            press()
            assert len(calls) == 4
    assert calls == [signal.SIGINT] * 4

    def other(*args: Any) -> None:
        raise TimeoutError

    with to_the_end():
        handler(other)
    assert signal.getsignal(signal.SIGINT) is other  # set meanwhile: it stays
    with pytest.raises(TimeoutError) as caught, to_the_end():
        press()
        raise ValueError("of the block")
    assert isinstance(caught.value.__context__, ValueError) and not interrupts._State.depth


def test_what_stands_in_for_a_handler_may_be_brought_back_too_late(handler: Callable[[Any], Any]) -> None:
    with to_the_end():
        found = handler(lambda *args: None)
    for _ in range(2):
        handler(found)  # as whoever changes it for a while, from the inside of a block on
        with pytest.raises(KeyboardInterrupt):
            press()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        handler(found)
        with pytest.raises(KeyboardInterrupt), to_the_end():
            press()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_blocks_of_other_threads_hold_nothing_back() -> None:
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with to_the_end(), allowed(), to_the_end():
            inside.set()
            done.wait(30.0)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(30.0)
    with pytest.raises(KeyboardInterrupt):
        press()
    with to_the_end(), suppress(KeyboardInterrupt), allowed():
        press()
        raise AssertionError("it was allowed here")
    done.set()
    thread.join()


def test_a_process_that_does_not_answer_can_be_interrupted(
    pair: tuple[Wire, Wire],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []

    def silent(sock: Any, count: int) -> bytes:
        press()
        ended.append(count)
        return bytes(count)

    monkeypatch.setattr(connections, "_exactly", silent)
    with pytest.raises(KeyboardInterrupt), to_the_end():
        pair[0].connect(7, pair[1].address, 0)
    assert not ended


class Stop(Exception):
    """What a program's own handler raises."""


@pytest.mark.parametrize("where", ["places", "connect", "spawn"])
@pytest.mark.parametrize("cluster", ["threads"], indirect=True)
def test_an_interrupt_while_workers_are_replaced(
    cluster: Any, where: str, handler: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it raises: the next use has all workers, and no process more than before."""

    def stops(*args: Any) -> None:
        raise Stop

    x = tw.evaluate(tw.asarray(start()).relayout(0))
    want = numpy.asarray(step(x, 1)).tobytes()
    cluster.kill(process_of(cluster, 1))
    thing = cluster.lines if where == "connect" else cluster
    real, left = getattr(thing, where), [2]

    def pressed(*args: Any) -> Any:
        found = real(*args) if where != "connect" else None
        if left[0]:
            left[0] -= 1
            if where == "spawn":
                press()
            else:
                with allowed():
                    press()
        return found if where != "connect" else real(*args)

    monkeypatch.setattr(thing, where, pressed)
    handler(stops)
    for _ in range(2):
        with pytest.raises(Stop):
            numpy.asarray(step(x, 1))
    assert numpy.asarray(step(x, 1)).tobytes() == want
    assert sorted(w for workers in cluster.hosts.values() for w in workers) == [0, 1]
    assert set(cluster.wires) == set(cluster.hosts) and not cluster.pending


def test_an_interrupt_while_a_session_closes(
    same_settings_after_each_test: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.register("threads", Threads)
    session = tw.session(engine="threads", workers=3)
    cluster: Any = session.cluster
    end = cluster.end

    def pressed(host: int) -> None:
        press()
        end(host)

    monkeypatch.setattr(cluster, "end", pressed)
    with pytest.raises(KeyboardInterrupt):
        session.close()
    assert not cluster.wires and not cluster.lines.links
    engine.unregister("threads")
