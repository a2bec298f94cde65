"""Helper threads for programs. In: a call from native code. Out: where helpers are, for as long as the program runs.

A program asks when it comes to a loop that is worth several threads, and not before: most calls never do.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any

from tilewise.backend import threads
from tilewise.backend.llvm.call import helpers
from tilewise.backend.llvm.call.parallel_for import place_of

_held: dict[int, Any] = {}  # by thread: words that its program reads


def _claim() -> int:
    """The address of what `helpers.posting` says, or 0: there are no helpers."""
    try:
        found = threads.begin()
        if not found:
            return 0
        words = _held[threading.get_ident()] = helpers.posting(found)
        return place_of(words)
    except BaseException:  # nobody is there to catch it: the loop runs on one thread
        return 0


def _release() -> None:
    _held.pop(threading.get_ident(), None)
    threads.end()


@cache
def functions() -> tuple[int, int]:
    """The addresses of the two, as native code calls them."""
    helpers.prepare()
    kept = ctypes.CFUNCTYPE(ctypes.c_int64)(_claim), ctypes.CFUNCTYPE(None)(_release)
    _kept.extend(kept)
    claim, release = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in kept)
    return claim, release


_kept: list[Any] = []  # functions whose addresses are given away
