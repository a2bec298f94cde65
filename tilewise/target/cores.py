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


def keep_off(thread: int, core: int) -> None:
    """Have a thread run on the cores that this one may run on, but for one of them."""
    if others := os.sched_getaffinity(0) - {core}:
        with contextlib.suppress(OSError):  # the thread has ended
            os.sched_setaffinity(thread, others)
