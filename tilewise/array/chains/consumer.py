"""What becomes of an operator's result. In: a place in Python code. Out: whether an operator or a slice takes it next.

The result of `a + b` in `c[1:] = 2.0 * (a + b)` has no name: the next operator takes it, and nobody else can see it.
This is read from the instructions that follow the operator. It decides only when work runs, never what comes of it.
"""

from __future__ import annotations

import dis
from types import CodeType, FrameType

_OPERATORS = frozenset(k for k, (_, sign) in enumerate(getattr(dis, "_nb_ops", ())) if sign in ("+", "-", "*", "/"))
_IN_PLACE = frozenset(k for k, (_, sign) in enumerate(getattr(dis, "_nb_ops", ())) if sign in ("+=", "-=", "*=", "/="))
_PUSH = frozenset("LOAD_FAST LOAD_CONST LOAD_NAME LOAD_DEREF LOAD_CLASSDEREF PUSH_NULL".split())
_NOTHING = frozenset("PRECALL KW_NAMES NOP RESUME EXTENDED_ARG CACHE".split())
_TAKE_TWO = frozenset(("BINARY_SUBSCR", "COMPARE_OP"))
_TAKE_ONE = frozenset(("LOAD_ATTR", "UNARY_POSITIVE", "UNARY_NOT", "UNARY_INVERT"))
MOST_PLACES = 4096

_places: dict[tuple[int, int], tuple[CodeType, bool | None]] = {}  # with the code, which keeps its id its own


def taken(frame: FrameType) -> bool | None:
    """Whether the operator that a frame is at gives its result to another one; None if it is at no operator."""
    code, at = frame.f_code, frame.f_lasti
    found = _places.get((id(code), at))
    if found is None:
        if len(_places) >= MOST_PLACES:
            _places.clear()
        found = _places[id(code), at] = (code, _looked_up(code, at))
    return found[1]


def _looked_up(code: CodeType, at: int) -> bool | None:
    following = [i for i in dis.get_instructions(code) if i.offset >= at]
    if not following or following[0].offset != at or following[0].opname not in ("BINARY_OP", "UNARY_NEGATIVE"):
        return None
    return _taken(following[1:])


def _taken(following: list[dis.Instruction]) -> bool:
    above = 0  # values that lie above ours on the stack
    for i in following:
        name, arg = i.opname, i.arg or 0
        if name in _PUSH:
            above += 1
        elif name == "LOAD_GLOBAL":
            above += 1 + (arg & 1)
        elif name == "BINARY_OP" and above < 2:
            return arg in _OPERATORS or (above == 0 and arg in _IN_PLACE)
        elif name == "UNARY_NEGATIVE":
            if above == 0:
                return True
        elif name == "STORE_SUBSCR":
            return above == 2
        elif name in _NOTHING:
            continue
        else:
            takes = _takes(name, arg)
            if takes is None or takes > above:
                return False
            above += (2 if name == "LOAD_METHOD" else 1) - takes
    return False


def _takes(name: str, arg: int) -> int | None:
    """How many values an instruction takes from the stack, to leave one there (LOAD_METHOD: two)."""
    if name in _TAKE_TWO or name == "BINARY_OP":
        return 2
    if name in _TAKE_ONE or name == "LOAD_METHOD":
        return 1
    if name in ("BUILD_SLICE", "BUILD_TUPLE"):
        return arg
    return arg + 2 if name == "CALL" else None
