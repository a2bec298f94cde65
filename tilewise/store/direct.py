"""Large parts of files past the system's cache. In: open files, memory. Out: the same bytes, for less processor time.

What goes through the cache is copied once more, and the system keeps books about every page: on a fast disk that takes
longer than the disk. Bytes that are read once, or that have to be on the disk before anybody sees them, need no cache.
Whether the cache has the bytes already is asked first. Where that cannot be asked (Linux before 6.5, which also has the
reads of this kind that a fork cannot tear), and on file systems without such reads, all is as if this were not here.

A handle is switched to direct reads and back, so it has to be of one thread alone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from mmap import PAGESIZE
from threading import Lock, local
from typing import Any

import numpy as np

from tilewise.later import later
from tilewise.store import files, pool

fcntl = later("fcntl")
LARGE_BYTES = 64 << 20  # of an array: smaller ones are worth keeping in the cache
LEAST_BYTES = 256 << 10  # of a read or write: the wait for a smaller one is longer than its copy
BLOCK = 4096  # places in files and lengths are multiples of it
ALIGNED = 512  # and addresses in memory of this
BETWEEN_BYTES = 1 << 20  # copied at a time where addresses are not: it stays in a core's cache
TRIED_BYTES = 128 << 20  # read before a disk is found slow
QUICK = 1e9  # bytes per second: from slower disks, reading again from the cache is what counts
REMEMBERED = 1024  # arrays that have passed by
_UNABLE = errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS


class Passing:
    """An array that is read past the cache, as long as the disk is quick or the cache could not hold the array.

    From a slow disk it is better read into the cache: another plan or program may need it.
    """

    def __init__(self, fits: bool) -> None:
        self.fits, self.on = fits, True
        self._lock = Lock()
        self._reading = self._bytes = 0
        self._since = self._busy = 0.0

    def begin(self) -> None:
        """A read begins; several may go on at once."""
        with self._lock:
            if not self._reading:
                self._since = time.perf_counter()
            self._reading += 1

    def end(self, nbytes: int) -> None:
        """One ends. Rates count the time while any is under way."""
        with self._lock:
            now = time.perf_counter()
            self._busy, self._since = self._busy + now - self._since, now
            self._reading -= 1
            self._bytes += nbytes
            if self.fits and self._bytes >= TRIED_BYTES:
                self.on = self.on and self._bytes >= QUICK * self._busy
                self._bytes, self._busy = 0, 0.0


_passed: dict[Hashable, None] = {}
_noting = Lock()


def _passed_before(fingerprint: Hashable) -> bool:
    with _noting:
        before = fingerprint in _passed
        _passed[fingerprint] = _passed.pop(fingerprint, None)
        if len(_passed) > REMEMBERED:
            del _passed[next(iter(_passed))]
        return before


def passing(fingerprint: Hashable, nbytes: int, read_bytes: int) -> Passing | None:
    """How an array is read of which a plan reads so many bytes; None: through the cache.

    What a plan reads more than once, and what another plan has read before, comes from the disk no more often than it
    has to: it is kept in the cache if that can hold it.
    """
    if read_bytes < LARGE_BYTES or not able():
        return None
    fits = nbytes <= files.snapshot_bytes()
    return None if fits and (read_bytes > nbytes or _passed_before(fingerprint)) else Passing(fits)


class _Hint(local):
    """How this thread reads."""

    passing: Passing | None = None


_hint = _Hint()


@contextmanager
def reading(how: Passing | None) -> Iterator[None]:
    """Reads of this thread are of an array that passes by meanwhile. Their handles are of this thread alone."""
    before, _hint.passing = _hint.passing, how
    try:
        yield
    finally:
        _hint.passing = before


def read_at(handle: int, into: memoryview, at: int) -> bool:
    """Fill memory from a place of a file; whether there was enough."""
    how, done = _hint.passing, 0
    if how is not None and how.on and len(into) >= LEAST_BYTES and not _cached(handle, at, len(into)):
        with _switched(handle) as direct:
            if direct:
                how.begin()
                try:
                    done = _read(handle, np.frombuffer(into, np.uint8), at)
                finally:
                    how.end(done)
    return files.read_at(handle, into[done:], at + done)


def write_at(handle: int, data: memoryview, at: int) -> None:
    """Write all bytes to a place of a file that is brought to the disk afterwards."""
    unit = _unit(handle)
    low, high = -(-at // unit) * unit, (at + len(data)) // unit * unit
    done = low
    if high - low >= LEAST_BYTES and able():
        with _switched(handle) as direct:
            done = _write(handle, np.frombuffer(data, np.uint8)[low - at : high - at], low) if direct else low
    if done == low:
        files.write_at(handle, data, at)
        return
    files.write_at(handle, data[: low - at], at)  # parts of blocks that others may write to, as well
    files.write_at(handle, data[done - at :], done)


def _unit(handle: int) -> int:
    """What the cache and the file system handle as one piece: parts of it never go past the cache while others do not.

    Pages have 64 KiB on some machines, and so have blocks of some file systems. What others write to a page that the
    cache is about to bring to the disk would be lost.
    """
    told = getattr(os.fstat(handle), "st_blksize", BLOCK)
    return max(BLOCK, PAGESIZE, told if told <= BETWEEN_BYTES and told & (told - 1) == 0 else BLOCK)


@contextmanager
def _switched(handle: int) -> Iterator[bool]:
    """A handle that goes past the cache meanwhile, if its file system is on a disk and has that.

    File systems without a device of their own (over a network, or made by programs) may not pin the pages they fill.
    """
    if not os.major(os.fstat(handle).st_dev):
        yield False
        return
    flags = fcntl.fcntl(handle, fcntl.F_GETFL)
    try:
        fcntl.fcntl(handle, fcntl.F_SETFL, flags | os.O_DIRECT)
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.fcntl(handle, fcntl.F_SETFL, flags)


def _read(handle: int, into: Any, at: int) -> int:
    """Fill memory as far as that goes: how many bytes."""
    address, done, between = into.ctypes.data, 0, None
    fits = (address - at) % ALIGNED == 0
    try:
        while done < into.size:
            skip, left = (at + done) % BLOCK, into.size - done
            if fits and not skip and left >= BLOCK:
                got = os.preadv(handle, [into[done : done + left // BLOCK * BLOCK]], at + done)
            else:
                wanted = min(left, BLOCK - skip) if fits and skip else left
                between = _aligned() if between is None else between
                part = between[: -(-(skip + wanted) // BLOCK) * BLOCK]
                got = min(os.preadv(handle, [part], at + done - skip) - skip, wanted)
                into[done : done + max(got, 0)] = part[skip : skip + max(got, 0)]
            if got <= 0:
                break
            done += got
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
    return done


def _write(handle: int, data: Any, at: int) -> int:
    """Write whole blocks as far as that goes: to which place."""
    done, between = 0, None if data.ctypes.data % ALIGNED == 0 else _aligned()
    try:
        while done < data.size:
            part = data[done:]
            if between is not None:
                part = between[: min(part.size, BETWEEN_BYTES)]
                part[...] = data[done : done + part.size]
            written = os.pwrite(handle, part, at + done) // BLOCK * BLOCK
            if not written:
                break
            done += written
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
    return at + done


def _aligned() -> Any:
    memory = pool.empty((BETWEEN_BYTES + BLOCK,), np.uint8)
    first = -memory.ctypes.data % BLOCK
    return memory[first : first + BETWEEN_BYTES]


# -- what the system has in its cache ----------------------------------------------------------------------------------

_CACHESTAT = 451  # the number of the call on the machines below
_MACHINES = "aarch64", "x86_64", "riscv64", "ppc64le", "s390x"


def _cached(handle: int, at: int, nbytes: int) -> bool:
    """Whether at least half of a part of a file is in the cache, or that is not known."""
    call = _cachestat()
    asked, told = (ctypes.c_uint64 * 2)(at, nbytes), (ctypes.c_uint64 * 5)()
    if call is None or call(_CACHESTAT, handle, ctypes.byref(asked), ctypes.byref(told), 0):
        return True
    return 2 * int(told[0]) * PAGESIZE >= nbytes


def able() -> bool:
    """Whether the system says what its cache has, and lets reads and writes go past it."""
    return _cachestat() is not None


@cache
def _cachestat() -> Any:
    """The system's function; None where it has none."""
    if sys.platform != "linux" or os.uname().machine not in _MACHINES or not hasattr(os, "O_DIRECT"):
        return None
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
    asked, told = (ctypes.c_uint64 * 2)(), (ctypes.c_uint64 * 5)()
    with open(os.devnull, "rb") as some:  # newer systems answer for files only that one may write to
        return None if call(_CACHESTAT, some.fileno(), ctypes.byref(asked), ctypes.byref(told), 0) else call
