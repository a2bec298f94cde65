"""Memory that is used again. In: a shape and a dtype. Out: an uninitialised ndarray.

A fresh 160 MB array costs three times the copy into an old one, because the system must hand over zeroed pages. A
block of pooled memory comes back when the last ndarray that refers to it dies: every view keeps its owner alive. Block
sizes are rungs of a coarse ladder so that they fit again. Small arrays are plain `np.empty`. When a block of another
size is needed, those that nobody used for some time go back to the system.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from math import prod
from sys import getrefcount, is_finalizing
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.ir.order import strides_of
from tilewise.tuning import Tuning, follow

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_pooled_at_bytes: int  # kept by `_adopt`
_idle_limit_bytes: int  # kept by `_adopt`

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
HUGE_PAGE = 2 * MIB
# Blocks begin at different places of a page: what is read and written side by side is in different sets of the caches.
SHIFT_BYTES, SHIFTS = 512, 8

NEAR = 1.25  # times the size that is needed: an idle block up to this is used
PATIENCE = 8  # blocks that are taken before one that lies idle goes back, when there is none of the size needed

ND = np.ndarray[Any, Any]
Strides = tuple[int, ...] | None


class _Block:
    """A piece of memory, in a huge page where it holds one; small pages where an array ends within one."""

    _made = count()

    def __init__(self, size: int, used: int, *, lent: bool = False) -> None:
        self.size, self.lent = size, lent
        self.since = 0  # how many blocks had been taken when it came back
        unit = HUGE_PAGE if size >= HUGE_PAGE else mmap.PAGESIZE
        shift = next(self._made) % SHIFTS * SHIFT_BYTES
        slack = unit + shift
        if hasattr(mmap, "MAP_ANONYMOUS"):
            # Private, so that a forked child has its own copy.
            try:
                memory = mmap.mmap(-1, size + slack, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            except (OSError, OverflowError) as error:
                raise MemoryError(f"unable to allocate {size:,} bytes") from error
            self.memory: ND = np.frombuffer(memory, np.uint8)
        else:
            self.memory = np.empty(size + slack, np.uint8)
        start: int = self.memory.ctypes.data
        first = -(-start // unit) * unit
        self.address = first + shift
        huge = used // HUGE_PAGE * HUGE_PAGE
        if huge and hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE, first - start, huge)


class _Owner:
    """What the ndarrays of a block hold on to: when it dies, the block is free."""

    __slots__ = ("__array_interface__", "_block", "_pool")

    def __init__(self, pool: Pool, block: _Block, shape: tuple[int, ...], typestr: str, strides: Strides) -> None:
        self._pool, self._block = pool, block
        self.__array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "strides": strides,
            "data": (block.address, False),
            "version": 3,
        }

    def __del__(self, ending: Callable[[], bool] = is_finalizing) -> None:
        if not ending():  # modules are empty when the process ends
            self._pool._give_back(self._block)


class Pool:
    """Blocks by size. Signal handlers and finalisers may run at any moment, even here, in a thread that has the lock.

    `_returned` takes blocks without it, and a block for such a one (`lent`) is none of the pool's.
    """

    def __init__(self) -> None:
        self._returned: deque[_Block] = deque()
        self._free: dict[int, list[_Block]] = {}
        self._oldest: dict[int, _Block] = {}  # all of these by id, those that were used longest ago first
        self._lock = threading.RLock()
        self._idle = self._in_use = self._peak = 0
        self._taken = 0  # blocks, ever
        self._patience = PATIENCE
        self._missed: set[int] = set()  # sizes of blocks that went back for want of use
        self.most: int | None = None  # bytes, in use or idle: beyond it nothing is kept
        self.bounds: list[int] = []  # of those who want less for a while
        self.high_water = 0  # the most in use since someone last asked to start over

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int, strides: Strides) -> ND:
        """An ndarray with these strides (None: C order)."""
        return np.asarray(_Owner(self, self._take(_rung(nbytes), nbytes), shape, dtype.str, strides))

    def trim(self, idle_bytes: int = 0) -> None:
        """Give idle memory back to the system until at most `idle_bytes` are left."""
        if self._inside():
            return
        with self._lock:
            self._drain()
            dropped = self._drop(idle_bytes)
        del dropped  # unmapped here, not under the lock

    def idle_bytes(self) -> int:
        """How much memory waits to be used again."""
        self._settle()
        return self._idle

    def start_over(self) -> None:
        """Count the high-water mark from what is in use now."""
        self._settle()
        self.high_water = self._in_use

    def after_fork(self) -> None:
        """A child gets a lock nobody holds."""
        self._lock = threading.RLock()

    def _inside(self) -> bool:
        """Whether this thread is in the middle of something here."""
        return self._lock._is_owned()  # type: ignore[attr-defined, no-any-return]  # as threading.Condition asks

    def _take(self, size: int, used: int) -> _Block:
        if self._inside():
            return _Block(size, used, lent=True)
        with self._lock:
            self._drain()
            self._taken += 1
            waiting = self._free.get(size) or self._free.get(self._near(size))
            taken = waiting[-1].size if waiting else size
            self._in_use += taken
            self._peak = max(self._peak, self._in_use)
            self.high_water = max(self.high_water, self._in_use)
            if waiting:
                self._idle -= taken
                block = waiting.pop()
                del self._oldest[id(block)]
                return block
            if size in self._missed:  # a round of the program is longer than that
                self._patience *= 2
                self._missed.clear()
            dropped = [*self._drop(self._may_idle(self._idle)), *self._drop_unused()]
        del dropped  # before there is more
        return _Block(size, used)

    def _give_back(self, block: _Block) -> None:
        if block.lent:
            return
        self._returned.append(block)
        # If someone holds the lock (perhaps this very thread, further down its stack), the next taker drains.
        if not self._inside() and self._lock.acquire(blocking=False):
            try:
                self._drain()
                dropped = self._drop(self._may_idle(max(_idle_limit_bytes, self._peak // 2)))
            finally:
                self._lock.release()
            del dropped

    def _may_idle(self, nbytes: int) -> int:
        """So many bytes, or fewer under a bound."""
        bounds = self.bounds if self.most is None else [self.most, *self.bounds]
        return min([nbytes, *(max(0, most - self._in_use) for most in bounds)])

    def _settle(self) -> None:
        """Count what has come back."""
        if not self._inside():
            with self._lock:
                self._drain()

    def _drain(self) -> None:
        while self._returned:
            block = self._returned.popleft()
            self._free.setdefault(block.size, []).append(block)
            self._oldest[id(block)] = block
            block.since = self._taken
            self._idle += block.size
            self._in_use -= block.size

    def _drop(self, idle_bytes: int) -> list[_Block]:
        """Take idle blocks out, those that were used longest ago first, until few enough are left."""
        dropped = []
        while self._idle > idle_bytes:
            block = self._oldest.pop(next(iter(self._oldest)))
            self._free[block.size].remove(block)
            self._idle -= block.size
            dropped.append(block)
        return dropped

    def _near(self, size: int) -> int:
        """The least size of an idle block that is not much larger; 0 if there is none."""
        return min((s for s, free in self._free.items() if free and size < s <= size * NEAR), default=0)

    def _drop_unused(self) -> list[_Block]:
        """Where more memory is needed: take out the blocks that nobody has wanted for some time."""
        dropped: list[_Block] = []
        while self._oldest:
            block = next(iter(self._oldest.values()))
            if self._taken - block.since < self._patience:
                break
            self._missed.add(block.size)
            dropped += self._drop(self._idle - block.size)
        return dropped


def _rung(nbytes: int) -> int:
    """The size of the block for an array: at most an eighth larger."""
    step = max(64 * KIB, 1 << (nbytes.bit_length() - 4))
    return -(-nbytes // step) * step


def keep_heap() -> None:
    """Let the C library keep what NumPy frees: at-once results then land on pages that have been used before.

    glibc hands arrays beyond a threshold back to the system one by one, and raises the threshold when it sees such an
    array freed. One that nobody touches costs nothing. Twice what is done at once (`eager_bytes`): larger arrays of
    NumPy's go back to the system, where the pool finds their memory.
    """
    np.empty(4 * MIB, np.uint8)


keep_heap()
_pool = Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.after_fork)


def empty(shape: tuple[int, ...], dtype: DTypeLike, order_perm: tuple[int, ...] | None = None) -> ND:
    """An uninitialised ndarray; `order_perm` names the axes from the outermost in memory to the innermost."""
    kind = dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)
    nbytes = kind.itemsize
    for n in shape:
        nbytes *= n
    if order_perm is None and 0 < nbytes < _pooled_at_bytes:
        return np.empty(shape, kind)  # the quickest, but it makes text of no length longer
    strides = None if order_perm is None else strides_of(shape, kind.itemsize, order_perm)
    if nbytes < _pooled_at_bytes or kind.kind not in "biufc" or nbytes > sys.maxsize:  # NumPy's complaint
        return np.ndarray(shape, kind, strides=strides)
    return _pool.empty(shape, kind, nbytes, strides)


def maker(shape: tuple[int, ...], dtype: np.dtype[Any], order_perm: tuple[int, ...] | None = None) -> Callable[[], ND]:
    """`empty` for arrays of one kind."""
    if order_perm is None and 0 < prod(shape) * dtype.itemsize < _pooled_at_bytes:
        return partial(np.empty, shape, dtype)
    return partial(empty, shape, dtype, order_perm)


def taken_over(view: ND) -> ND | None:
    """An array of its own in the place of a view of a whole pooled array that nobody else has; None if it is not that.

    The caller has the view in one variable, and nothing else has.
    """
    base: Any = view.base
    fits = isinstance(base, np.ndarray) and base.nbytes == view.nbytes and isinstance(base.base, _Owner)
    del base
    if not fits or _holders(view) > _ONE or _holders(view.base) > _ONE:
        return None
    owner: Any = view.base.base  # type: ignore[union-attr]
    owner.__array_interface__ = {**owner.__array_interface__, **view.__array_interface__}
    return np.asarray(owner)


def _holders(view: Any) -> int:
    """References to what an array shows, with those of asking."""
    base = view.base
    return getrefcount(base)


_ONE = _holders(np.empty(2)[:1])  # the view's alone, as this interpreter counts


def trim(idle_bytes: int = 0) -> None:
    """Give idle memory back to the system until at most `idle_bytes` are left."""
    _pool.trim(idle_bytes)


def bound(nbytes: int | None) -> None:
    """Keep no idle memory beyond so many bytes in all (None: as much as is useful)."""
    _pool.most = nbytes


@contextmanager
def bounded(nbytes: int | None) -> Iterator[None]:
    """Keep no idle memory beyond so many bytes meanwhile; threads may do so side by side."""
    bounds = [] if nbytes is None else [nbytes]
    _pool.bounds.extend(bounds)
    try:
        yield
    finally:
        for x in bounds:
            _pool.bounds.remove(x)


def idle_bytes() -> int:
    """How much memory waits to be used again."""
    return _pool.idle_bytes()


def reset_peak() -> None:
    """Start a new high-water mark."""
    _pool.start_over()


def peak_bytes() -> int:
    """The most pooled memory in use at once since `reset_peak`."""
    return _pool.high_water


def _adopt(tuning: Tuning) -> None:
    """Keep the figures that are needed often."""
    global _pooled_at_bytes, _idle_limit_bytes
    _pooled_at_bytes = tuning.pooled_at_bytes
    _idle_limit_bytes = tuning.idle_limit_bytes


follow(_adopt)
