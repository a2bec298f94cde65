"""All cores for one launch. In: a function of a part number, and how many parts. Out: when all parts are done.

The caller works too; helper threads sleep on locks between launches (main plus one helper by locks costs 17 us, a
thread pool 38; 90 if it has slept for a while). Parts are handed out one by one. While one launch has the helpers,
another runs on its caller alone. What needs no Python goes to helpers that wait, and sleep, in native code
(llvm/call/helpers.py).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise.backend import cores
from tilewise.config import current
from tilewise.tuning import Tuning, follow

_copy_part_bytes: int  # kept by `_adopt`

# Words of a helper: its state, whether it shall leave native code, on which core it was last; the rest is helpers.py's.
STATE, LEAVE, CORE, WORDS = 0, 1, 2, 16
AWAY = 0  # the state of a helper that is not in native code
LINE_WORDS = 8  # of a cache line
SOON_S = 300e-6  # native work that comes so soon after other work goes on coming, as a rule: helpers wait for it

Work = Callable[[int], object]


class _Helping(threading.local):
    """Of a helper: the launch that it works for, or did."""

    job: _Job | None = None


_helping = _Helping()


class _Job:
    """One launch: the parts still to hand out, what went wrong, and which helpers are through."""

    def __init__(self, work: Work, parts: int, helpers: int) -> None:
        self.work = work
        self.parts = parts
        self.helpers = helpers
        self.error: BaseException | None = None
        self._next = itertools.count().__next__  # one step under the GIL: no two threads get the same number
        self._through = [False] * helpers
        self._gates = [threading.Lock() for _ in range(helpers)]
        for gate in self._gates:
            gate.acquire()

    def run(self) -> None:
        """Take parts until there are none."""
        while self.error is None and (part := self._next()) < self.parts:
            self.work(part)

    def help(self, helper: int) -> None:
        """Run as a helper; an exception is kept for the launcher."""
        _helping.job = self
        try:
            self.run()
        except BaseException as error:
            self.error = self.error or error
        self._through[helper] = True
        _open(self._gates[helper])

    def wait(self) -> None:
        """Until every helper is through; may be called again after an interrupt."""
        for through, gate in enumerate(self._gates):
            while not self._through[through]:
                gate.acquire(timeout=1.0)


Posting = Callable[[Sequence["Helper"]], None]


def _open(lock: threading.Lock) -> None:
    """Release a lock, whether or not it is held."""
    with contextlib.suppress(RuntimeError):
        lock.release()


def _nothing(part: int) -> None:
    """The work of a job that is over."""


class Helper:
    """A thread that sleeps until it is woken for a job, or called for native work.

    Waking twice is harmless (a job without parts, or with an error, is over at once), so that a launch which was
    interrupted while it woke its helpers can simply wake them again.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._gate = threading.Lock()
        self._gate.acquire()
        self._job: _Job | None = None
        self._ends = self.waits = False
        raw = np.zeros(WORDS + LINE_WORDS, np.int64)
        start = -(raw.ctypes.data // raw.itemsize) % LINE_WORDS  # no other thread writes into this line
        self._words = raw[start : start + WORDS]
        self.view, self.place = self._words.data, self._words.ctypes.data
        self.view[CORE] = cores.NOWHERE
        self._cores = cores.Place()
        self._thread = threading.Thread(target=self._loop, name=f"tilewise-helper-{number}", daemon=True)
        self._thread.start()

    def wake(self, job: _Job) -> None:
        """Start a job."""
        self._job = job
        self._open()

    def call(self, more: bool, core: int) -> None:
        """Have it do native work that is about to be posted by a thread on some core, and wait for `more`."""
        self.waits = more and self._number < CORES - 1
        if self.view[CORE] == core != cores.NOWHERE and self._thread.native_id is not None:
            self._cores.keep_off(self._thread.native_id, core)
            self.view[CORE] = cores.NOWHERE
        if self.view[STATE] == AWAY:
            self._job = None
            _open(self._gate)

    def end(self) -> None:
        """End the thread."""
        self._ends = True
        self._open()

    def _open(self) -> None:
        self.view[LEAVE] = 1
        if _rouse is not None:
            _rouse(self.place)
        _open(self._gate)

    def _loop(self) -> None:
        while True:
            self._gate.acquire()
            self.view[LEAVE] = 0
            job = self._job
            if self._ends:
                return
            if job is not None:
                job.help(self._number)
            elif _serve is not None:
                _serve(self.place)


CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_serve: Callable[[int], None] | None = None  # how a helper does native work, once there is some
_rouse: Callable[[int], None] | None = None


def set_native(serve: Callable[[int], None], rouse: Callable[[int], None]) -> None:
    """Have helpers do native work so, given the place of their words; and how one that sleeps there is woken."""
    global _serve, _rouse
    _serve, _rouse = serve, rouse


class _Team:
    """The helpers of this process, for one launch at a time."""

    def __init__(self) -> None:
        self.count = CORES
        self.forget()

    def forget(self) -> None:
        """Start without threads (also after a fork, where they are gone)."""
        self.helpers: list[Helper] = []
        self.job: _Job | None = None  # the latest that has the helpers
        self.latest = 0.0  # when native work last ended
        self.owner: dict[str, tuple[int, object]] = {}  # who has the helpers; a dict, because setdefault is atomic

    def run(self, work: Work, parts: int, native: Posting | None, short: bool) -> None:
        together = min(parts, get_threads())
        if together < 2 or not self._claim():
            for part in range(parts):
                work(part)
            return
        try:
            self._have(together - 1)
            if native is not None:
                helpers = self.helpers[: together - 1]
                soon = time.perf_counter() - self.latest < SOON_S
                if short and not soon:
                    helpers = []
                core = cores.here()
                for helper in helpers:
                    helper.call(soon, core)
                native(helpers)
                self.latest = time.perf_counter()
                return
            job = self.job = _Job(work, parts, together - 1)
            try:
                self._run_together(job)
            finally:
                job.work = _nothing  # helpers remember their last job, which must not keep arrays alive
        finally:
            self.owner.clear()

    def begin(self) -> Sequence[Helper]:
        """As `begin` below."""
        count = get_threads()
        mine = (threading.get_ident(), object())
        if count < 2 or self.owner.setdefault("team", mine) is not mine:
            return ()
        self._have(count - 1)
        helpers, core = self.helpers[: count - 1], cores.here()
        for helper in helpers:
            helper.call(True, core)
        return helpers

    def _claim(self) -> bool:
        """Whether the caller has the helpers now."""
        mine = (threading.get_ident(), object())
        owner = self.owner.setdefault("team", mine)
        if owner is mine:
            return True
        if owner[0] != mine[0] or _inside_a_launch():
            return False
        # An interrupt hit this thread just as it took or gave back the helpers.
        self.owner["team"] = mine
        return True

    def _have(self, helpers: int) -> None:
        """Have so many helpers, and no more than the threads there usually are."""
        while len(self.helpers) < helpers:
            self.helpers.append(Helper(len(self.helpers)))
        while len(self.helpers) > max(helpers, self.count - 1):
            self.helpers.pop().end()

    def _run_together(self, job: _Job) -> None:
        """Run a job and see all helpers through it, whatever happens: they write into live memory."""
        while True:
            try:
                for helper in self.helpers[: job.helpers]:
                    helper.wake(job)
                job.run()
                job.wait()
                break
            except BaseException as error:
                job.error = job.error or error  # hands out nothing more; then once again, to wait
        if job.error is not None:
            raise job.error


def _inside_a_launch() -> bool:
    """Whether this thread is in a launch of its own besides the one that asks: in its work, or in a signal handler."""
    frame = sys._getframe().f_back
    launches = 0
    while frame is not None and launches < 2:
        launches += frame.f_code is _Team.run.__code__
        frame = frame.f_back
    return launches == 2


_team = _Team()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_team.forget)


def set_threads(n: int) -> None:
    """Use n threads (the caller included) from the next launch on."""
    assert n >= 1, f"threads must be at least 1, got {n}"
    _team.count = n


def get_threads() -> int:
    """How many threads a launch may use: as the settings here say, else all."""
    asked = current().threads
    return _team.count if asked is None else asked


def run(work: Work, parts: int, native: Posting | None = None, short: bool = False) -> None:
    """work(0) … work(parts - 1), on all threads; the first exception is raised here, after all have stopped.

    `native` does the same with helpers that wait for native work, as far as they are there. If it is `short`, none is
    woken for it, unless more of the kind may come: the one before was just now.
    """
    _team.run(work, parts, native, short)


def stopped() -> bool:
    """Whether what this helper works for has failed, or was interrupted: nobody wants its part any more."""
    return _helping.job is not None and _helping.job.error is not None


def begin() -> Sequence[Helper]:
    """Helpers that are called for native work, until `end`; none if there is one thread, or others have them."""
    return _team.begin()


def end() -> None:
    """Give the helpers back."""
    _team.latest = time.perf_counter()
    _team.owner.clear()


def give_up() -> None:
    """Give back helpers that an interrupted `begin` may have taken for this thread."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code is not _Team.run.__code__:
        frame = frame.f_back
    owner = _team.owner.get("team")
    if frame.f_back is None and owner is not None and owner[0] == threading.get_ident():  # no launch has them
        _team.owner.clear()


def run_in_turn(before: Work, turn: Work, after: Work, parts: int) -> None:
    """before, turn and after of every part, on all threads; the turns one at a time, in the order of the parts."""
    done = 0

    def work(part: int) -> None:
        nonlocal done
        before(part)
        # Parts are handed out in order, so the one before has begun. If it was interrupted, nobody needs the rest.
        while done < part:
            if _team.job is not None and _team.job.error is not None:
                return
            time.sleep(0)
        turn(part)
        done = part + 1
        after(part)

    run(work, parts)


def parallel_for(fn: Callable[[int, int], object], ranges: Sequence[tuple[int, int]]) -> None:
    """fn(start, stop) for every range, on all threads (for NumPy work on tiles, which releases the GIL)."""
    run(lambda i: fn(*ranges[i]), len(ranges))


def parallel_copy(dst: np.ndarray[Any, Any], src: np.ndarray[Any, Any]) -> None:
    """dst[...] = src by all threads, cut along the longest axis of dst."""
    parts = min(get_threads(), dst.nbytes // _copy_part_bytes)
    if parts < 2:
        np.copyto(dst, src)
        return
    src = np.broadcast_to(src, dst.shape)
    # Cut where elements are farthest apart, so that threads write separate memory.
    axis = max((d for d in range(dst.ndim) if dst.shape[d] >= parts), key=lambda d: abs(dst.strides[d]), default=-1)
    if axis < 0:
        np.copyto(dst, src)
        return
    d, s, n = dst.swapaxes(0, axis), src.swapaxes(0, axis), dst.shape[axis]
    ranges = [(n * i // parts, n * (i + 1) // parts) for i in range(parts)]
    parallel_for(lambda a, b: np.copyto(d[a:b], s[a:b]), ranges)


def _adopt(tuning: Tuning) -> None:
    """Keep the figures that are needed often."""
    global _copy_part_bytes
    _copy_part_bytes = tuning.copy_part_bytes


follow(_adopt)
