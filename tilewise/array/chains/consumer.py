"""What becomes of an operator's result. In: a place in Python code. Out: whether an operator or a slice takes it next.

The result of `a + b` in `c[1:] = 2.0 * (a + b)` has no name: the next operator takes it, and nobody else can see it.
This is read from the instructions that follow the operator. It decides only when work runs, never what comes of it.
"""

from __future__ import annotations

import ctypes
import dis
from types import CodeType, FrameType
from typing import Protocol

from tilewise.array.stack import instruction

_OPERATORS = frozenset(k for k, (_, sign) in enumerate(getattr(dis, "_nb_ops", ())) if sign in ("+", "-", "*", "/"))
_IN_PLACE = frozenset(k for k, (_, sign) in enumerate(getattr(dis, "_nb_ops", ())) if sign in ("+=", "-=", "*=", "/="))
_PUSH = frozenset("LOAD_FAST LOAD_CONST LOAD_NAME LOAD_DEREF LOAD_CLASSDEREF PUSH_NULL".split())
_NOTHING = frozenset("PRECALL KW_NAMES NOP RESUME EXTENDED_ARG CACHE".split())
_TAKE_TWO = frozenset(("BINARY_SUBSCR", "COMPARE_OP"))
_TAKE_ONE = frozenset(("LOAD_ATTR", "UNARY_POSITIVE", "UNARY_NOT", "UNARY_INVERT"))
MOST_PLACES = 4096


class Place:
    """An operator in Python code. `next`: where what takes its result is; NOBODY, or where a chain gains NOTHING.

    `calls`: functions are called before that. `stored`: it is `container[key] = result`; `proved`: with an array.
    """

    __slots__ = ("at", "calls", "code", "next", "proved", "stored")

    def __init__(self, code: CodeType, at: int, next: int, calls: bool, stored: bool) -> None:
        self.code, self.at, self.next = code, at, next  # the code keeps its id its own
        self.calls, self.stored, self.proved = calls, stored, False

    def leads_to(self, code: CodeType, at: int) -> bool:
        """Whether the result is taken there."""
        return self.next == at and self.code is code

    def line(self) -> int | None:
        """The line of the operator."""
        return next((line for start, end, line in self.code.co_lines() if start <= self.at < end), None)


class Number(Protocol):
    """A number in memory."""

    value: int


class AtOnce:
    """Instructions whose results never wait, as machine code looks them up (array/slots/takeover.py).

    There is one entry for each address, which several instructions may share: what is not found is asked here.
    """

    __slots__ = ("_entries", "_waiting", "begun")

    def __init__(self) -> None:
        self.begun = False
        self._waiting: Number | None = None
        self._entries: ctypes.Array[ctypes.c_uint64] | None = None

    def follow(self, waiting: Number, entries: ctypes.Array[ctypes.c_uint64]) -> None:
        """Keep a number up to date: whether operators wait at all; and a table of instructions where they do not."""
        self._waiting, self._entries = waiting, entries
        self.begin(self.begun)

    def begin(self, some: bool = True) -> None:
        """From now on, some operators wait, or none."""
        self.begun = some
        if self._waiting is not None:
            self._waiting.value = some

    def enter(self, frame: FrameType) -> None:
        """What a frame is at is done at once."""
        if self._entries is not None:
            at = instruction(frame)
            self._entries[at // 2 % len(self._entries)] = at

    def forget(self) -> None:
        """The addresses may be those of other instructions soon."""
        if self._entries is not None:
            ctypes.memset(self._entries, 0, ctypes.sizeof(self._entries))


at_once = AtOnce()
NOBODY, NOTHING = -1, -2  # nobody: something else than an operator or a slice that is written to
_places: dict[tuple[int, int], Place] = {}


def place_of(frame: FrameType) -> Place:
    """The place that a frame is at."""
    code, at = frame.f_code, frame.f_lasti
    found = _places.get((id(code), at))
    if found is None:
        if len(_places) >= MOST_PLACES:
            _places.clear()
            at_once.forget()
        found = _places[id(code), at] = Place(code, at, *_looked_up(code, at))
    return found


def _looked_up(code: CodeType, at: int) -> tuple[int, bool, bool]:
    """Of the operator there: `next`, `calls` and `stored`."""
    following = [i for i in dis.get_instructions(code) if i.offset >= at]
    if not following or following[0].offset != at or following[0].opname not in ("BINARY_OP", "UNARY_NEGATIVE"):
        return NOTHING, False, False
    found = _taken(following[1:])
    between = [i.opname for i in following if i.offset <= found]
    return found, "CALL" in between, found >= 0 and between[-1] == "STORE_SUBSCR"


def _taken(following: list[dis.Instruction]) -> int:
    above = 0  # values that lie above ours on the stack
    for i in following:
        name, arg = i.opname, i.arg or 0
        if name in _PUSH:
            above += 1
        elif name == "LOAD_GLOBAL":
            above += 1 + (arg & 1)
        elif name == "BINARY_OP" and above < 2:
            return i.offset if arg in _OPERATORS or (above == 0 and arg in _IN_PLACE) else NOBODY
        elif name == "UNARY_NEGATIVE":
            if above == 0:
                return i.offset
        elif name == "STORE_SUBSCR":
            return i.offset if above == 2 else NOBODY
        elif name not in _NOTHING:
            takes = _takes(name, arg)
            if takes is None or takes > above:
                return NOBODY
            above += (2 if name == "LOAD_METHOD" else 1) - takes
    return NOBODY


def _takes(name: str, arg: int) -> int | None:
    """How many values an instruction takes from the stack, to leave one there (LOAD_METHOD: two)."""
    if name in _TAKE_TWO or name == "BINARY_OP":
        return 2
    if name in _TAKE_ONE or name == "LOAD_METHOD":
        return 1
    if name in ("BUILD_SLICE", "BUILD_TUPLE"):
        return arg
    return arg + 2 if name == "CALL" else None
