"""Helper threads for programs. In: a call from native code. Out: where helpers are, for as long as the program runs.

A program asks when it comes to a loop that is worth several threads, and not before: most calls never do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from typing import Any

from tilewise.backend import threads
from tilewise.backend.llvm.call import helpers
from tilewise.backend.llvm.call.parallel_for import place_of
from tilewise.interrupts import raise_later, to_the_end

_CLAIM, _RELEASE = ctypes.CFUNCTYPE(ctypes.c_int64), ctypes.CFUNCTYPE(None)


class Team:
    """The two functions, as native code calls them, for one block of results (which is used by one call at a time)."""

    def __init__(self) -> None:
        helpers.prepare()
        self._words: Any = None  # that a program reads, while it has helpers; a call inside of it has a team of its own
        self._functions = _CLAIM(self._answers(self._claim).__next__), _RELEASE(self._answers(self._release).__next__)
        self.addresses = tuple(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._functions)

    def _answers(self, work: Callable[[], int]) -> Generator[int, None, None]:
        """Answers to native code, which nothing may be raised to: Ctrl-C is heard a little later."""
        begun = self._answering(work)
        next(begun)
        return begun

    def _answering(self, work: Callable[[], int]) -> Generator[int, None, None]:
        answer = 0
        while True:
            try:  # a generator goes on inside of it: there handlers of signals run
                yield answer
                answer = work()
            except GeneratorExit:
                return
            except BaseException as error:
                answer = self._release()
                raise_later(error)  # last: from here on it may come at any time

    def _claim(self) -> int:
        """The address of what `helpers.posting` says, or 0: there are no helpers, and the loop runs on one thread."""
        with to_the_end():
            found = threads.begin()
            if not found:
                return 0
            self._words = helpers.posting(found)
        return place_of(self._words)

    def _release(self) -> int:
        """Let helpers go, if this program has them."""
        with to_the_end():
            if self._words is not None:
                self._words = None
                threads.end()
        return 0
