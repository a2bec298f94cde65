"""Memory that processes of one machine share, for large pieces. In: arrays. Out: the same arrays in another process.

A segment is a file in memory without a name in any folder: however a process ends, nothing is left behind. The sender
owns it, offers it once over the link, and uses it when the other side has mapped it; until then, and wherever that does
not work (another machine, another system), pieces go over the link. A piece is copied once into a free segment and
read where it lies; its first byte says that it is taken, until the last array of the receiver that lies there is gone.
Nobody ever waits for a segment.
"""

from __future__ import annotations

import mmap
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from sys import is_finalizing
from typing import Any, NamedTuple

import numpy as np

ND = np.ndarray[Any, Any]

SHARED_BYTES = 1 << 15  # of a piece, at least: half the processor time of a link (benchmarks/transport.py)
MOST_BYTES = 1 << 27  # of all segments that a process offers
MOST_SEGMENTS = 16  # for one other process: each is an open file of both
MOST_FILES = 256  # of a process, for its own and others' segments: many systems allow 1024 in all
SLACK = 4  # a segment is larger than a piece by at most one part of so many
_HEADER = 64  # bytes before the piece: the first one is 1 while somebody uses it, else 0
_FREE, _TAKEN = 0, 1


class Offer(NamedTuple):
    """What the other side needs to know to map a segment."""

    number: int
    nbytes: int
    machine: str
    process: int
    descriptor: int
    name: str
    gone: tuple[int, ...]  # segments that made room for it


class _Segment:
    """One side's view of a segment."""

    def __init__(self, number: int, descriptor: int, nbytes: int) -> None:
        self.number, self.nbytes = number, nbytes
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self.memory = mmap.mmap(descriptor, _HEADER + nbytes, flags=flags)
        self.address: int = np.frombuffer(self.memory, np.uint8).ctypes.data + _HEADER
        self.descriptor = -1  # of the sender, until the other side has it
        self.usable = False

    def view(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> ND:
        """The memory of a piece."""
        return np.ndarray(shape, dtype, self.memory, _HEADER)


class _Lent:
    """What the arrays of the receiver that lie in a segment hold on to: when it dies, the segment is free."""

    __slots__ = ("__array_interface__", "_process", "_segment")

    def __init__(self, segment: _Segment, dtype: str, shape: tuple[int, ...]) -> None:
        self._segment, self._process = segment, os.getpid()
        self.__array_interface__ = {
            "shape": shape,
            "typestr": dtype,
            "data": (segment.address, True),
            "version": 3,
        }

    def __del__(self, ending: Callable[[], bool] = is_finalizing) -> None:
        if ending() or self._process != os.getpid():  # modules are empty at the end; a fork has borrowed nothing
            return
        # All loads from the piece come before the store: a release and then an acquire, which no processor swaps.
        fence = threading.Lock()
        with fence:
            pass
        with fence:
            self._segment.memory[0] = _FREE


class SharedMemory:
    """The segments of one process: those it offers to others, and those of others, by process."""

    def __init__(self) -> None:
        self._mine: dict[int, list[_Segment]] = {}  # those that were used longest ago first
        self._theirs: dict[int, dict[int, _Segment]] = {}
        self._missed: Counter[tuple[int, int]] = Counter()  # how often there was none, by process and size
        self._refused: set[int] = set()
        self._count = self._bytes = 0
        self.works = hasattr(os, "memfd_create") and machine() is not None

    # -- the sender ---------------------------------------------------------------------------------------------------

    def put(self, who: int, piece: ND) -> int | Offer | None:
        """Copy a piece into a segment: its number; or what to offer, so that there is one next time; or None."""
        if not self.works or who in self._refused:
            return None
        nbytes = piece.nbytes
        segments = self._mine.setdefault(who, [])
        for k in range(len(segments) - 1, -1, -1):
            s = segments[k]
            if s.usable and nbytes <= s.nbytes <= nbytes + nbytes // SLACK and s.memory[0] == _FREE:
                s.memory[0] = _TAKEN
                s.view(piece.dtype, piece.shape)[...] = piece
                segments.append(segments.pop(k))
                return s.number
        size = _rung(nbytes)
        self._missed[who, size] += 1
        if self._missed[who, size] < 2 or any(s.nbytes == size and not s.usable for s in segments):
            return None
        return self._offer(who, size)

    def _offer(self, who: int, size: int) -> Offer | None:
        """Another segment, if there is room for it, or unused ones to replace."""
        if len(self._missed) > 1000:
            self._missed.clear()
        segments, gone = self._mine[who], []
        while self._bytes + size > MOST_BYTES or len(segments) >= MOST_SEGMENTS or self._files() >= MOST_FILES:
            free = next((s for s in segments if s.usable and s.memory[0] == _FREE and s.nbytes != size), None)
            if free is None:
                return None
            segments.remove(free)
            self._bytes -= free.nbytes
            gone.append(free.number)
        here, name, descriptor = machine(), f"tilewise-{secrets.token_hex(8)}", -1
        assert here is not None
        try:
            descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
            os.posix_fallocate(descriptor, 0, _HEADER + size)  # here it can be refused; later it would end the process
            made = _Segment(self._count, descriptor, size)
        except (OSError, ValueError):
            if descriptor >= 0:
                os.close(descriptor)
            self._refused.add(who)
            return None
        made.descriptor = descriptor
        self._count += 1
        self._bytes += size
        segments.append(made)
        return Offer(made.number, size, here, os.getpid(), descriptor, name, tuple(gone))

    def answered(self, who: int, number: int, taken: bool) -> None:
        """The other side has mapped a segment, or cannot."""
        for s in self._mine.get(who, ()):
            if s.number == number:
                os.close(s.descriptor)
                s.descriptor, s.usable = -1, taken
        if not taken:
            self._refused.add(who)
            self._drop_mine(who)

    # -- the receiver -------------------------------------------------------------------------------------------------

    def offered(self, who: int, offer: Offer) -> bool:
        """Map a segment of another process: whether that works."""
        theirs = self._theirs.setdefault(who, {})
        for number in offer.gone:
            theirs.pop(number, None)
        if not self.works or offer.machine != machine() or self._files() >= MOST_FILES:
            return False
        path = f"/proc/{offer.process}/fd/{offer.descriptor}"
        try:
            if offer.name not in os.readlink(path):
                return False
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                theirs[offer.number] = _Segment(offer.number, descriptor, offer.nbytes)
            finally:
                os.close(descriptor)
        except (OSError, ValueError):
            return False
        return True

    def get(self, who: int, number: int, dtype: str, shape: tuple[int, ...]) -> ND | None:
        """A piece where it lies, to read; its segment is taken as long as anybody has it. None: it went with a link."""
        segment = self._theirs.get(who, {}).get(number)
        return None if segment is None else np.asarray(_Lent(segment, dtype, shape))

    # -- both ---------------------------------------------------------------------------------------------------------

    def ended(self, who: int) -> None:
        """The link to another process has ended. Arrays in its segments stay what they are."""
        self._theirs.pop(who, None)
        self._refused.discard(who)
        self._drop_mine(who)

    def _files(self) -> int:
        return sum(map(len, self._mine.values())) + sum(map(len, self._theirs.values()))

    def _drop_mine(self, who: int) -> None:
        for s in self._mine.pop(who, ()):
            self._bytes -= s.nbytes
            if s.descriptor >= 0:
                os.close(s.descriptor)


def _rung(nbytes: int) -> int:
    """The size of a segment for a piece, so that it fits others as well."""
    step = 1 << max(12, nbytes.bit_length() - 4)
    return -(-nbytes // step) * step


def machine() -> str | None:
    """What processes have in common that can see each other; None where the system does not say."""
    global _machine
    if _machine == "":
        _machine = None
        with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
            _machine = f"{file.read().strip()} {os.stat('/proc/self/ns/pid').st_ino}"
    return _machine


_machine: str | None = ""  # not asked for yet
