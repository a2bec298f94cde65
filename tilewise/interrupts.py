"""Ctrl-C that waits for a good moment. In: blocks that must come to their end. Out: KeyboardInterrupt after them.

Python raises KeyboardInterrupt between any two instructions of the main thread. Inside of `to_the_end` it is noted, and
raised at the end; inside of `allowed`, which stands around what may take long, at once, as ever.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` turns numbers into enumerations, which takes longer
import _thread
import ctypes
import os
import threading
import time
from collections.abc import Callable
from typing import Any

SIGINT = _signal.SIGINT


class _State:
    """Of the main thread, which is the only one that hears of Ctrl-C."""

    depth = 0  # of blocks
    before: Callable[..., Any] = _signal.default_int_handler  # the program's own handler, meanwhile
    stands = False  # whether `_press` stands in for it
    pressed: list[tuple[Any, ...]] = []  # what it will be called with, once for each time  # noqa: RUF012
    open = False  # whether it is called at once


def _press(*args: Any) -> None:
    """Stands in for the program's handler."""
    state = _State
    if not state.stands:  # somebody found this inside of a block, and brought it back after it
        _signal.signal(SIGINT, state.before)
        state.before(*args)
    elif not state.open:
        state.pressed.append(args)
    else:
        state.open = False  # should it raise, nothing else does before the block around this has ended
        state.before(*args)
        state.open = True


def _raise_noted() -> None:
    noted, _State.pressed = _State.pressed, []
    for args in noted:  # should one raise, that is the answer to all
        _State.before(*args)


_ident = threading.get_ident
_main = threading.main_thread().ident


def _adopt_main_thread() -> None:
    """In a process that was forked, the thread that forked it is the main one."""
    global _main
    _main = threading.main_thread().ident


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_adopt_main_thread)


def _in_main_thread() -> bool:
    return _ident() == _main


def waits() -> bool:
    """Whether Ctrl-C would wait here, in the main thread."""
    return _State.depth > 0


def begin_anew() -> None:
    """In a process that was forked within blocks, of which it will see no end."""
    _State.depth = 0


class to_the_end:
    """Inside, Ctrl-C is noted, and raised when the block has ended. Blocks may lie in each other."""

    __slots__ = ("_counts", "_open")

    def __enter__(self) -> None:
        self._counts = _ident() == _main
        if not self._counts:
            return
        state = _State
        self._open = state.open
        if state.depth:
            state.open = False
            state.depth += 1
            return
        before = _signal.getsignal(SIGINT)
        self._counts = callable(before)
        if self._counts:
            if before is not _press:
                state.before = before
            state.pressed, state.open, state.stands = [], False, True
            _signal.signal(SIGINT, _press)  # what came before this is raised here, by the old handler
            state.depth = 1

    def __exit__(self, *error: object) -> None:
        if not self._counts:
            return
        state = _State
        if state.depth == 1:
            state.depth = 0
            if _signal.getsignal(SIGINT) is _press:  # else the program has set another one meanwhile
                _signal.signal(SIGINT, state.before)
            state.stands = False
            _raise_noted()
            return
        state.depth -= 1
        if self._open:
            state.open = True
            if state.pressed:
                state.open = False
                _raise_noted()
                state.open = True


class allowed:
    """Inside, Ctrl-C is raised at once although this is within `to_the_end`; also one that was noted before."""

    __slots__ = ("_counts", "_open")

    def __enter__(self) -> None:
        state = _State
        self._counts = state.depth > 0 and _in_main_thread()
        if self._counts:
            self._open = state.open
            state.open = True
            if state.pressed:
                state.open = False
                _raise_noted()
                state.open = True

    def __exit__(self, *error: object) -> None:
        if self._counts:
            _State.open = self._open


def raise_later(error: BaseException, busy: list[bool]) -> None:
    """Raise an exception of this class when this thread runs Python again, and is no longer `busy` with an answer.

    For what native code calls: Python prints what is raised there, and forgets it.
    """
    _thread.start_new_thread(_raise_in, (threading.get_ident(), type(error), busy))


def _raise_in(thread: int, kind: type[BaseException], busy: list[bool]) -> None:
    while busy[0]:
        time.sleep(0.0005)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
