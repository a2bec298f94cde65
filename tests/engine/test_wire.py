"""The connections between processes: who may speak, what is read, when a wait ends."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy
import pytest

from tilewise.engine.network.frames import Reader, flat, frame, unflat
from tilewise.engine.network.links import Links, Stranger
from tilewise.engine.network.transport import Cancelled, Mailbox, PeerFailed, PeerLost, Tag, Transport
from tilewise.engine.network.wire import CALL, EPOCH, Wire
from tilewise.engine.recovery.worker_errors import portable
from tilewise.layout import DRIVER

SECRET = b"0123456789abcdef"
ARRAYS = [
    numpy.arange(5.0), numpy.zeros((0, 3)), numpy.array(7, "i2"), numpy.arange(100_000.0).reshape(100, 1000)[:, ::2],
    numpy.asfortranarray(numpy.arange(60_000.0).reshape(300, 200)), numpy.arange(100_000, dtype="f4")[::-1],
    numpy.array(["a", "längst"]), numpy.array([1 + 2j, numpy.nan]), numpy.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
    numpy.arange(8.0).reshape(2, 4).T,
]  # fmt: skip


def pump(wires: list[Wire], seconds: float = 0.02) -> None:
    for w in wires:
        while w.progress(seconds):
            pass


@pytest.fixture
def pair() -> Iterator[tuple[Wire, Wire]]:
    """Two processes, worker 0 in process 0 and workers 1 and 2 in process 1."""
    wires = [Wire(0, SECRET, "127.0.0.1"), Wire(1, SECRET, "127.0.0.1")]
    addresses = {w.me: w.address for w in wires}
    other = threading.Thread(target=wires[0].meet, args=(0, addresses, [0, 1, 1]))
    other.start()
    wires[1].meet(0, addresses, [0, 1, 1])
    other.join()
    yield wires[0], wires[1]
    for w in wires:
        w.close()


@pytest.mark.parametrize("size", [1, 97, 1 << 16])
def test_messages_come_out_as_they_went_in(size: int) -> None:
    here, there = socket.socketpair()
    there.setblocking(False)
    arrays = [a for a in ARRAYS if size > 1 or a.nbytes < 1000]  # a byte at a time takes long
    messages = [("first", arrays), ("second", {}), (3, [a.copy() for a in arrays] * 2)]
    stream = b"".join(bytes(b) for m in messages for b in frame(m))
    reader, got = Reader(), []
    for k in range(0, len(stream), size):
        here.sendall(stream[k : k + size])
        got += reader.read(there)
    assert [g[0] for g in got] == ["first", "second", 3]
    for a, b in zip(got[0][1] + got[2][1], arrays * 3, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        numpy.testing.assert_array_equal(a, b)
    assert not reader.closed
    here.close()
    reader.read(there)
    assert reader.closed
    there.close()


def test_pieces_in_few_words() -> None:
    for a, b in zip(unflat(flat(ARRAYS)), ARRAYS, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        numpy.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ["mailbox", "wire"])
def test_a_transport_keeps_messages_apart(kind: str, pair: tuple[Wire, Wire]) -> None:
    left: Transport = Mailbox() if kind == "mailbox" else pair[0]
    right: Transport = left if kind == "mailbox" else pair[1]
    left.begin(1)
    tags = [Tag(0, 1, 0), Tag(0, 1, 1)]
    block = numpy.arange(4.0)

    def send() -> None:
        left.send(0, 2, tags[1], [block, block * 2])
        left.send(0, 1, tags[1], [])
        left.send(0, 1, tags[0], ARRAYS)
        block[:] = -1  # the sender goes on

    sender, until = threading.Thread(target=send, daemon=True), time.monotonic() + 20
    sender.start()
    while sender.is_alive() and time.monotonic() < until:
        pair[1].progress(0.02)  # a connection holds less than that: who sends waits until somebody reads
    assert not sender.is_alive()
    for a, b in zip(right.receive(0, 1, tags[0]), ARRAYS, strict=True):
        numpy.testing.assert_array_equal(a, b)
    assert right.receive(0, 1, tags[1]) == []
    got = right.receive(0, 2, tags[1])
    numpy.testing.assert_array_equal(got, [numpy.arange(4.0), numpy.arange(4.0) * 2])


def test_two_that_send_much_to_each_other_both_get_on(pair: tuple[Wire, Wire]) -> None:
    much, tag, got = numpy.arange(2_000_000.0), Tag(0, 1, 0), []

    def side(wire: Wire, me: int, other: int) -> None:
        wire.send(me, other, tag, [much + me])
        got.append((me, wire.receive(other, me, tag)[0]))

    sides = [threading.Thread(target=side, args=(w, k, 1 - k), daemon=True) for k, w in enumerate(pair)]
    for s in sides:
        s.start()
    for s in sides:
        s.join(20)
    assert sorted(me for me, _ in got) == [0, 1]
    for me, x in got:
        numpy.testing.assert_array_equal(x, much + 1 - me)


def test_waits_end_when_nothing_will_come(pair: tuple[Wire, Wire]) -> None:
    left, right = pair
    left.send(0, 1, Tag(0, 1, 0), [numpy.ones(2)])
    left.fail(Tag(0, 1, 0))
    assert right.receive(0, 1, Tag(0, 1, 0))[0].sum() == 2  # what was sent before counts
    with pytest.raises(PeerFailed):
        right.receive(0, 1, Tag(0, 1, 1))
    right.begin(2)
    left.send(0, 1, Tag(0, 1, 5), [numpy.ones(2)])  # of a run that is over here
    left.send(0, 1, Tag(0, 2, 0), [numpy.ones(3)])
    assert right.receive(0, 1, Tag(0, 2, 0))[0].sum() == 3
    assert not right._pieces
    left.close()
    with pytest.raises(PeerLost):
        right.receive(0, 1, Tag(0, 2, 1))
    with pytest.raises(PeerLost):
        right.send(1, 0, Tag(0, 2, 1), [numpy.ones(1)])


class Driver(Links):
    def __init__(self, *wires: Wire) -> None:
        super().__init__(DRIVER, SECRET)
        self.heard: list[Any] = []
        for w in wires:
            helper = threading.Thread(target=pump, args=([w], 0.3))
            helper.start()
            self.connect(w.me, w.address, 0)
            helper.join()

    def arrived(self, who: int, message: Any) -> None:
        self.heard.append(message)


def test_a_new_epoch_ends_waits_and_voids_what_was_sent(pair: tuple[Wire, Wire]) -> None:
    left, right = pair
    driver = Driver(right)
    driver.post(1, (CALL, 0, 1, "run", ()))
    left.send(0, 1, Tag(0, 1, 3), [numpy.ones(1)])
    pump([right])
    driver.post(1, (EPOCH, 1))
    with pytest.raises(Cancelled):
        right.receive(0, 1, Tag(0, 1, 0))
    assert not right._pieces and not right._calls
    left.send(0, 1, Tag(0, 1, 4), [numpy.ones(1)])  # another that has not heard of it yet
    pump([right])
    assert not right._pieces
    driver.post(1, (CALL, 1, 2, "run", ()))
    call = right.next_call()
    assert call is not None and call.epoch == 1
    driver.close()
    assert right.next_call() is None


class Exploding:
    """A pickle that does something."""

    def __reduce__(self) -> Any:
        return explode, ()


exploded: list[int] = []


def explode() -> None:
    exploded.append(1)


@pytest.mark.parametrize(
    "said", [b"", b"GET / HTTP/1.1\r\n\r\n", b"x" * 4096, b"".join(map(bytes, frame(Exploding())))]
)
def test_strangers_are_not_listened_to(said: bytes, pair: tuple[Wire, Wire]) -> None:
    right = pair[1]
    stranger = socket.create_connection(right.address)
    stranger.sendall(said)
    pump([right])
    with suppress(ConnectionError):  # it may have been shown the door already
        stranger.sendall(bytes(100))
    pump([right])
    assert set(right.links) == {0} and not exploded
    stranger.close()
    pump([right])
    assert not right._greetings
    pickle.loads(pickle.dumps(Exploding()))
    assert exploded.pop() == 1  # it would have been seen


def test_both_sides_must_know_the_secret(pair: tuple[Wire, Wire]) -> None:
    right = pair[1]
    wrong = Wire(5, b"another secret", "127.0.0.1")
    helper = threading.Thread(target=pump, args=([right], 0.3))
    helper.start()
    with pytest.raises(Stranger):
        wrong.connect(1, right.address, 0)
    helper.join()
    assert set(right.links) == {0}
    # One that does not check who answers, and replays what the other said, is no better off.
    sock = socket.create_connection(right.address)
    sock.sendall(bytes(32))
    pump([right])
    answer = sock.recv(64)
    assert len(answer) == 64
    sock.sendall(answer[32:] + (5).to_bytes(8, "little") + bytes(8))
    pump([right])
    assert set(right.links) == {0}
    sock.close()
    wrong.close()


def test_slow_strangers_do_not_pile_up(pair: tuple[Wire, Wire], monkeypatch: pytest.MonkeyPatch) -> None:
    right = pair[1]
    monkeypatch.setattr("tilewise.engine.network.links.GREETING_SECONDS", 0.0)
    waiting = []
    for _ in range(5):
        waiting.append(socket.create_connection(right.address))
        time.sleep(0.01)
        pump([right], 0.01)
    assert len(right._greetings) <= 1
    for sock in waiting:
        sock.close()


# -- errors on their way ----------------------------------------------------------------------------------------------


class Odd(ValueError):
    """Its __init__ wants something else than what it keeps."""

    def __init__(self, code: int, *, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def test_errors_keep_class_fields_and_notes() -> None:
    error = Odd(7, text="no")
    error.add_note("in sum, recorded at a.py:3")
    back = pickle.loads(pickle.dumps(portable(error)))
    assert type(back) is Odd and back.code == 7 and str(back) == "7: no" and back.__notes__ == error.__notes__
    missing = FileNotFoundError(2, "No such file", "x.npy")
    back = pickle.loads(pickle.dumps(portable(missing)))
    assert type(back) is FileNotFoundError and back.filename == "x.npy" and back.errno == 2
