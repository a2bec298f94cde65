"""Helper threads for programs. In: a call from native code. Out: where helpers are, for as long as the program runs.

A program asks when it comes to a loop that is worth several threads, and not before: most calls never do.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator
from typing import Any

from tilewise.backend import threads
from tilewise.backend.llvm.call import helpers
from tilewise.backend.llvm.call.parallel_for import place_of
from tilewise.interrupts import raise_later, to_the_end

_CLAIM, _RELEASE = ctypes.CFUNCTYPE(ctypes.c_int64), ctypes.CFUNCTYPE(None)
_held: dict[int, Any] = {}  # by thread: words that its program reads


class Team:
    """The two functions, as native code calls them, for one block of results (which is used by one call at a time)."""

    def __init__(self) -> None:
        helpers.prepare()
        self._functions = _CLAIM(_answers(_claim, _release).__next__), _RELEASE(_answers(_release, _release).__next__)
        self.addresses = tuple(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._functions)


def _answers(work: Callable[[], int], instead: Callable[[], int]) -> Generator[int, None, None]:
    """Answers to native code, which nothing may be raised to: Ctrl-C is heard a little later."""
    begun = _answering(work, instead)
    next(begun)
    return begun


def _answering(work: Callable[[], int], instead: Callable[[], int]) -> Generator[int, None, None]:
    answer, busy = 0, [False]
    while True:
        try:  # a generator goes on inside of it: handlers of signals run there, and where a loop begins again
            while True:
                busy[0] = False
                yield answer
                busy[0] = True
                answer = work()
        except GeneratorExit:
            return
        except BaseException as error:
            busy[0] = True
            raise_later(error, busy)
            answer = instead()


def _claim() -> int:
    """The address of what `helpers.posting` says, or 0: there are no helpers, and the loop runs on one thread."""
    words = None
    try:
        with to_the_end():
            found = threads.begin()
            if not found:
                return 0  # a program around this one may have them
            words = _held[threading.get_ident()] = helpers.posting(found)
        return place_of(words)
    except BaseException:
        if words is not None:
            _release()
        elif threading.get_ident() not in _held:
            threads.give_up()
        raise


def _release() -> int:
    """Let helpers go, if this thread has them."""
    with to_the_end():
        if _held.pop(threading.get_ident(), None) is not None:
            threads.end()
    return 0
