"""Messages on a stream of bytes. In: Python objects with arrays in them. Out: buffers to send, objects that came.

Arrays travel as they lie: only what describes them is pickled. Whoever reads has made sure whom the bytes are from
(links.py), as pickles can do anything.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.store import pool

ND = np.ndarray[Any, Any]
SCRATCH_BYTES = 1 << 14  # what comes with a header is copied once more
IN_BAND_BYTES = 1 << 14  # a copy of so much costs less than a buffer of its own (benchmarks/transport.py)
MOST_BUFFERS = 512  # of one system call (Linux takes 1024)
_PREFIX = struct.Struct("<QI")  # bytes of the header, number of buffers
_PREFIX_BYTES = _PREFIX.size
_prefix, _read_prefix = _PREFIX.pack, _PREFIX.unpack_from
_dumps, _loads = pickle.dumps, pickle.loads


def frame(message: Any) -> list[Any]:
    """A message as buffers, the larger arrays where they lie."""
    apart: list[memoryview] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < IN_BAND_BYTES:
            return True
        apart.append(raw)
        return False

    header = pickle.dumps(message, 5, buffer_callback=keep)
    if not apart:
        return [_PREFIX.pack(len(header), 0) + header]
    sizes = struct.pack(f"<{len(apart)}Q", *(b.nbytes for b in apart))
    return [_PREFIX.pack(len(header), len(apart)) + sizes + header, *apart]


def plain_frame(message: Any) -> bytes:
    """The same for a message that is known to have no arrays in it: one buffer."""
    header = _dumps(message, 5)
    return _prefix(len(header), 0) + header


_names: dict[np.dtype[Any], str] = {}


def name_of(dtype: np.dtype[Any]) -> str:
    """How a number's dtype is written in a message. NumPy writes `dtype.str` anew each time, which takes 0.4 us."""
    return _names.get(dtype) or _names.setdefault(dtype, dtype.str)


def flat(pieces: Sequence[ND]) -> list[Any]:
    """Pieces in the fewest words: type, shape and elements, which takes a third of the time of pickling an array."""
    return [
        (name_of(p.dtype), p.shape, p.tobytes())
        if p.nbytes < IN_BAND_BYTES and p.dtype.kind in "biufc"
        else p
        if p.flags.c_contiguous or p.flags.f_contiguous
        else np.ascontiguousarray(p)
        for p in pieces
    ]


def unflat(pieces: Sequence[Any]) -> list[ND]:
    """What `flat` was given, to read."""
    return [np.ndarray(p[1], p[0], p[2]) if type(p) is tuple else p for p in pieces]


def write(sock: socket.socket, buffers: list[Any]) -> list[Any]:
    """Send as much as goes without waiting; what is left."""
    if len(buffers) == 1 and type(only := buffers[0]) is bytes:  # most messages
        try:
            sent = sock.send(only)
        except (BlockingIOError, InterruptedError):
            return buffers
        return [] if sent == len(only) else [memoryview(only)[sent:]]
    while buffers:
        try:
            sent = sock.sendmsg(buffers[:MOST_BUFFERS])
        except (BlockingIOError, InterruptedError):
            break
        k = 0
        while k < len(buffers) and sent >= (size := memoryview(buffers[k]).nbytes):
            sent -= size
            k += 1
        buffers = buffers[k:]
        if sent:
            buffers[0] = memoryview(buffers[0])[sent:]
            break  # the next call would most likely have to wait
    return buffers


class Reader:
    """What has come of the messages of one connection."""

    def __init__(self) -> None:
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._got = bytearray()  # of a frame whose header is not complete
        self._header = b""
        self._buffers: list[Any] | None = None  # of a frame whose header is
        self._empty: list[memoryview] = []  # what is still to be filled of them, in order
        self.closed = False

    def read(self, sock: socket.socket) -> list[Any]:
        """The messages that are complete now; `closed` if the other end is."""
        done: list[Any] = []
        while True:
            into = self._empty[0] if self._empty else self._scratch
            try:
                count = sock.recv_into(into)
            except (BlockingIOError, InterruptedError):
                return done
            except OSError:
                count = 0
            if not count:
                self.closed = True
                return done
            if self._empty:
                self._filled(count)
                self._parse(done)
                if done:  # what it is about may be put away before more of that size is read
                    return done
            else:
                start = 0 if self._got else self._whole(into[:count], done)
                if start < count:
                    self._got += into[start:count]
                    self._parse(done)
            if count < len(into):
                return done

    def _whole(self, got: memoryview, done: list[Any]) -> int:
        """Take the frames that lie in one piece and have no buffers (most do); where the rest begins."""
        start, end = 0, len(got)
        while (first := start + _PREFIX_BYTES) <= end:
            length, count = _read_prefix(got, start)
            after = first + length
            if count or after > end:
                break
            done.append(_loads(got[first:after]))
            start = after
        return start

    def _filled(self, count: int) -> None:
        rest = self._empty[0][count:]
        self._empty[:1] = [rest] if rest else []

    def _parse(self, done: list[Any]) -> None:
        while True:
            if self._buffers is None and not self._begin():
                return
            while self._empty and self._got:
                count = min(len(self._empty[0]), len(self._got))
                self._empty[0][:count] = self._got[:count]
                del self._got[:count]
                self._filled(count)
            if self._empty:
                return
            done.append(pickle.loads(self._header, buffers=self._buffers))
            self._header, self._buffers = b"", None

    def _begin(self) -> bool:
        """Take the header of a frame, if it is there."""
        got = self._got
        if len(got) < _PREFIX.size:
            return False
        length, count = _PREFIX.unpack_from(got)
        start = _PREFIX.size + 8 * count
        if len(got) < start + length:
            return False
        sizes = struct.unpack_from(f"<{count}Q", got, _PREFIX.size)
        self._header = bytes(got[start : start + length])
        del got[: start + length]
        self._buffers = [pool.empty((n,), np.uint8) for n in sizes]
        self._empty = [memoryview(b) for b in self._buffers]
        return True
