"""Cores and threads. In: this thread, a helper. Out: the core it runs on; a helper that keeps off another's core.

A scheduler may wake a helper on the core of the thread that calls it, although others are idle (to save energy, or
because it last ran there), and leave both there for a millisecond: longer than most work takes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable

LINUX = sys.platform == "linux"
NOWHERE = -1  # a core that no thread is on

here: Callable[[], int] = ctypes.CDLL(None).sched_getcpu if LINUX else lambda: NOWHERE  # the core of this thread


class Place:
    """The cores of a thread: those that it was given, of which it leaves one out."""

    def __init__(self) -> None:
        self._given: set[int] = set()
        self._left: set[int] = set()

    def keep_off(self, thread: int, core: int) -> None:
        """Have the thread run on all cores that it was given, but for this one."""
        with contextlib.suppress(OSError):  # it has ended
            now = os.sched_getaffinity(thread)
            if now != self._left:  # somebody else's choice
                self._given = now
            if others := self._given - {core}:
                os.sched_setaffinity(thread, others)
                self._left = others
