"""Large pieces between processes of one machine: they come as they went, and nothing is left behind."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy
import pytest

from tilewise.engine.host import ServedHost
from tilewise.engine.network import shared_memory
from tilewise.engine.network.shared_memory import SharedMemory
from tilewise.engine.network.transport import PeerLost, Tag
from tilewise.engine.network.wire import Wire
from tilewise.layout import Mesh

SECRET = b"0123456789abcdef"
pytestmark = pytest.mark.skipif(not SharedMemory().works, reason="this system has no such memory")


def pump(*wires: Wire) -> None:
    for _ in range(3):
        for w in wires:
            while w.progress(0.002):
                pass


@pytest.fixture
def pair() -> Iterator[tuple[Wire, Wire]]:
    wires = [Wire(0, SECRET, "127.0.0.1"), Wire(1, SECRET, "127.0.0.1")]
    addresses = {w.me: w.address for w in wires}
    other = threading.Thread(target=wires[0].meet, args=(0, addresses, [0, 1]))
    other.start()
    wires[1].meet(0, addresses, [0, 1])
    other.join()
    yield wires[0], wires[1]
    for w in wires:
        w.close()


def swap(left: Wire, right: Wire, run: int, pieces: list[Any]) -> list[Any]:
    tag = Tag(0, run, 0)
    right.begin(run)
    sending = threading.Thread(target=left.send, args=(left.me, right.me, tag, pieces))
    sending.start()
    got = right.receive(left.me, right.me, tag)
    sending.join()
    while left.progress(0.001):  # answers to offers, which were sent before the piece came
        pass
    return got


def mapped() -> int:
    gc.collect()
    return Path("/proc/self/maps").read_text().count("memfd:tilewise")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


LARGE = numpy.arange(60_000.0)
PIECES = [
    LARGE, LARGE.reshape(200, 300)[:, ::2], numpy.asfortranarray(LARGE.reshape(200, 300)), LARGE[::-1],
    LARGE.astype("c8").reshape(3, 100, 200).transpose(1, 2, 0), LARGE > 7, LARGE.astype(">i4"), LARGE.astype("f2"),
    numpy.where(LARGE % 2, numpy.nan, -0.0), LARGE.astype("U7"),
]  # fmt: skip


def test_pieces_come_as_they_went_and_stay(pair: tuple[Wire, Wire]) -> None:
    left, right = pair
    runs = count(1)
    for piece in PIECES:
        for _ in range(5):  # what came is kept until the next comes: two segments
            got = swap(left, right, next(runs), [piece])[0]
            assert got.dtype == piece.dtype and got.shape == piece.shape
            numpy.testing.assert_array_equal(got, piece)
        assert got.flags.writeable is not (piece.dtype.kind != "U"), "in shared memory"
        assert got.flags.f_contiguous or not piece.flags.f_contiguous
    sent = [[LARGE * k, LARGE - k, LARGE[:5]] for k in range(12)]
    kept = [swap(left, right, next(runs), pieces) for pieces in sent]
    assert sum(not x.flags.writeable for got in kept for x in got[:2]) > 10
    for got, pieces in zip(kept, sent, strict=True):  # none was overwritten as long as somebody had it
        for a, b in zip(got, pieces, strict=True):
            numpy.testing.assert_array_equal(a, b)


def test_segments_are_used_again_and_nothing_is_left(pair: tuple[Wire, Wire]) -> None:
    left, right = pair
    before, maps = descriptors(), mapped()
    for run in range(1, 30):
        got = swap(left, right, run, [LARGE * run])
        numpy.testing.assert_array_equal(got[0], LARGE * run)
    assert mapped() - maps <= 4, "two segments, mapped on both sides"
    assert not got[0].flags.writeable
    left.drop(1)
    pump(right)
    assert mapped() - maps == 1, "what somebody still has"
    numpy.testing.assert_array_equal(got[0], LARGE * 29)
    with pytest.raises(PeerLost):
        left.send(0, 1, Tag(0, 30, 0), [LARGE])
    del got
    assert mapped() == maps and descriptors() <= before


def test_a_limit_and_refusals_leave_the_link(pair: tuple[Wire, Wire], monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = pair
    monkeypatch.setattr(shared_memory, "MOST_BYTES", 1_000_000)
    maps = mapped()
    kept = [swap(left, right, run, [LARGE * run]) for run in range(1, 9)]
    for run, got in enumerate(kept, 1):
        numpy.testing.assert_array_equal(got[0], LARGE * run)
    assert mapped() - maps == 4 and kept[-1][0].flags.writeable
    del kept, got
    small = LARGE[:9_000]
    for run in range(9, 14):  # unused segments make room for those of another size
        numpy.testing.assert_array_equal(swap(left, right, run, [small + run])[0], small + run)
    assert not swap(left, right, 14, [small])[0].flags.writeable and mapped() - maps == 4
    assert right.shared is not None
    right.shared.works = False  # as on another machine
    for run in range(15, 25):
        numpy.testing.assert_array_equal(swap(left, right, run, [LARGE[:20_000] * run])[0], LARGE[:20_000] * run)
    assert left.shared is not None and not left.shared._mine and left.shared._bytes == 0
    monkeypatch.setattr(os, "posix_fallocate", no_space)
    right.shared.works, before = True, descriptors()
    for run in range(30, 34):
        numpy.testing.assert_array_equal(swap(right, left, run, [LARGE * run])[0], LARGE * run)
    assert descriptors() == before and not right.shared._bytes


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, "no space left on device")


def test_there_are_few_open_files(pair: tuple[Wire, Wire]) -> None:
    left, right = pair
    before, maps, runs = descriptors(), mapped(), count(1)
    kept = [swap(left, right, next(runs), [LARGE * k])[0] for k in range(40)]  # nobody lets go of any
    assert mapped() - maps == 2 * shared_memory.MOST_SEGMENTS == descriptors() - before
    for k, got in enumerate(kept):
        numpy.testing.assert_array_equal(got, LARGE * k)
    del kept, got
    for size in range(5_000, 60_000, 7_000):  # others take their places
        for _ in range(5):
            got = swap(left, right, next(runs), [LARGE[:size]])[0]
            numpy.testing.assert_array_equal(got, LARGE[:size])
        assert not got.flags.writeable
    assert mapped() - maps <= 2 * shared_memory.MOST_SEGMENTS


def test_messages_that_nobody_wants_free_their_segments(pair: tuple[Wire, Wire]) -> None:
    left, right = pair
    maps = mapped()
    for run in range(1, 4):
        swap(left, right, run, [LARGE])
    right.begin(50)
    for run in range(4, 30):  # of runs that are over here
        left.send(0, 1, Tag(0, run, 0), [LARGE])
        pump(right, left)
    assert mapped() - maps <= 4
    assert not swap(left, right, 51, [LARGE])[0].flags.writeable


def test_a_limit_of_memory_counts_no_segments(pair: tuple[Wire, Wire]) -> None:
    ServedHost((0,), Mesh(2), 1 << 30, pair[0])
    for run in range(1, 6):
        assert swap(*pair, run, [LARGE])[0].flags.writeable


def _endless(address: Any, pipe: Any) -> None:
    wire = Wire(1, SECRET, "127.0.0.1")
    pipe.send(wire.address)
    wire.meet(0, {0: address, 1: wire.address}, [0, 1])
    for run in range(1, 1000):
        wire.send(1, 0, Tag(0, run, 0), [LARGE * run])
        wire.receive(0, 1, Tag(0, run, 0))


def test_a_killed_process_leaves_nothing() -> None:
    context = multiprocessing.get_context("fork")
    wire, (here, there), maps = Wire(0, SECRET, "127.0.0.1"), context.Pipe(), mapped()
    other = context.Process(target=_endless, args=(wire.address, there), daemon=True)
    other.start()
    try:
        wire.meet(0, {0: wire.address, 1: here.recv()}, [0, 1])
        for run in range(1, 8):
            got = wire.receive(1, 0, Tag(0, run, 0))
            wire.send(0, 1, Tag(0, run, 0), [LARGE])
        assert not got[0].flags.writeable and mapped() > maps
        os.kill(other.pid or 0, signal.SIGKILL)
        with pytest.raises(PeerLost):
            for run in range(8, 12):
                wire.receive(1, 0, Tag(0, run, 0))
        numpy.testing.assert_array_equal(got[0], LARGE * 7)
        del got
        assert mapped() == maps
    finally:
        other.kill()
        other.join()
        wire.close()


def lent(left: Wire, right: Wire) -> Any:
    """A piece that lies in shared memory."""
    pieces = (swap(left, right, run, [LARGE * run])[0] for run in range(1, 9))
    return next(got for got in pieces if not got.flags.writeable)


def test_pieces_that_went_with_a_link_are_dropped(pair: tuple[Wire, Wire]) -> None:
    left, right = pair
    lent(left, right)
    assert right.shared is not None
    right.shared.ended(0)  # as if there had been another link meanwhile
    left.send(0, 1, Tag(0, 9, 0), [LARGE])
    pump(right)
    assert 0 in right.links and not right._pieces, "nobody is lost for that"
    left.send(0, 1, Tag(0, 9, 1), [LARGE[:5]])
    numpy.testing.assert_array_equal(right.receive(0, 1, Tag(0, 9, 1))[0], LARGE[:5])


def test_a_fork_of_the_receiver_frees_nothing(pair: tuple[Wire, Wire]) -> None:
    left, right = pair
    got = lent(left, right)
    assert left.shared is not None
    taken = [s for s in left.shared._mine[1] if s.memory[0]]
    child = os.fork()
    if not child:
        del got
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert taken and all(s.memory[0] for s in taken)
    del got
    gc.collect()
    assert not any(s.memory[0] for s in taken)


def test_offers_to_the_dead_leave_nothing(pair: tuple[Wire, Wire], monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = pair
    before, shared = descriptors(), left.shared
    swap(left, right, 1, [LARGE])

    def dies(who: int, message: Any) -> None:
        raise PeerLost(f"process {who} is gone")

    monkeypatch.setattr(left, "post", dies)  # while it sends an offer
    with pytest.raises(PeerLost):
        left.send(0, 1, Tag(0, 2, 0), [LARGE])
    assert shared is not None and not shared._mine and not shared._bytes and descriptors() == before


def test_files_of_many_processes_are_bounded(pair: tuple[Wire, Wire], monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = pair
    monkeypatch.setattr(shared_memory, "MOST_FILES", 3)
    maps = mapped()
    kept = [swap(left, right, run, [LARGE * run])[0] for run in range(1, 12)]
    assert mapped() - maps == 6 and sum(not x.flags.writeable for x in kept) == 3
    for run, got in enumerate(kept, 1):
        numpy.testing.assert_array_equal(got, LARGE * run)
