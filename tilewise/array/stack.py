"""Operands on the stack of Python code. In: a frame at an operator, a value. Out: whether the value is its operand.

C code may call an operator of ours while a frame stands at an operator of its own: the loop of an array of objects
holds elements with no more references than a temporary has, and may take one several times. What lies in the operand's
slot of the frame's stack is taken once, and then it is gone. The depth of the stack at an instruction follows from the
instructions; where the slots are is known of CPython 3.11, and tried when this is imported.
"""

from __future__ import annotations

import ctypes
import dis
import sys
from types import CodeType, FrameType
from typing import Any

INNER = 24  # of a frame object: where the interpreter's frame is
AT = 56  # of the interpreter's frame: the address of the instruction that it is at
_SLOTS = 72  # local names, then the stack
_WORD = ctypes.sizeof(ctypes.c_void_p)
_RESUMED = 0x20 | 0x80 | 0x200  # generators, coroutines, asynchronous generators: they begin with a value
_NOTHING_FOLLOWS = frozenset(
    "JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT RETURN_VALUE RAISE_VARARGS RERAISE".split()
)
MOST_CODES = 1024
_slots: dict[int, tuple[CodeType, dict[int, int]]] = {}  # with the code, which keeps its id its own


def is_operand(frame: FrameType, value: Any, above: int) -> bool:
    """Whether a value lies on the stack that a frame's instruction finds, below so many others."""
    if not SURE:
        return False
    code = frame.f_code
    found = _slots.get(id(code))
    if found is None:
        if len(_slots) >= MOST_CODES:
            _slots.clear()
        names = _names(code)
        found = _slots[id(code)] = (code, {at: names + depth for at, depth in depths(code).items() if depth})
    top = found[1].get(frame.f_lasti)
    return top is not None and _slot(frame, top - 1 - above) == id(value)


def instruction(frame: FrameType) -> int:
    """The address of the instruction that a frame is at; 0 where that is not known."""
    return (_word(_inner(frame) + AT) or 0) if SURE else 0


def _inner(frame: FrameType) -> int:
    inner = _word(id(frame) + INNER)
    assert inner is not None
    return inner


def _word(address: int) -> int | None:
    return ctypes.c_void_p.from_address(address).value


def _slot(frame: FrameType, index: int) -> int | None:
    return _word(_inner(frame) + _SLOTS + _WORD * index)


def _names(code: CodeType) -> int:
    """Slots of local names, and of those that closures share."""
    return code.co_nlocals + len({*code.co_cellvars} - {*code.co_varnames}) + len(code.co_freevars)


def depths(code: CodeType) -> dict[int, int]:
    """How many values are on the stack before each instruction that is reached without an exception."""
    if code.co_flags & _RESUMED:
        return {}
    instructions = list(dis.get_instructions(code))
    at = {i.offset: k for k, i in enumerate(instructions)}
    found: dict[int, int] = {}
    to_do = [(0, 0)]
    while to_do:
        k, depth = to_do.pop()
        while k < len(instructions) and instructions[k].offset not in found:
            i = instructions[k]
            found[i.offset] = depth
            arg = i.arg if i.opcode >= dis.HAVE_ARGUMENT else None
            if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs:
                to_do.append((at[i.argval], depth + dis.stack_effect(i.opcode, arg, jump=True)))
            if i.opname in _NOTHING_FOLLOWS:
                break
            depth += dis.stack_effect(i.opcode, arg, jump=False)
            k += 1
    return found


class _Probe:
    """Looks for itself on the stack of the expression that it is in."""

    def __add__(self, other: Any) -> tuple[bool, bool, bool]:
        frame = sys._getframe(1)
        return is_operand(frame, self, 1), is_operand(frame, other, 0), is_operand(frame, self, 0)


def _tried() -> bool:
    """Whether operands are where they are looked for."""
    kept = [0]

    def probe(a: Any, b: int = 1, *more: int) -> list[Any]:
        found = []
        for _ in range(2):
            found.append((b, [kept, (more, _Probe() + _Probe())], a + _Probe() if more else ()))
        return found

    right = (True, True, False)
    try:
        return probe(_Probe(), 1, 2) == [(1, [kept, ((2,), right)], right)] * 2 and _addressed()
    except (KeyError, ValueError):
        return False


def _addressed() -> bool:
    """Whether a frame has the address of its instruction, in the code."""
    frame = sys._getframe()
    try:
        first = _before_code(frame)
        return 0 < first == _before_code(frame) < frame.f_code.__sizeof__()
    finally:
        del frame  # which would hold itself, and all that import this


def _before_code(frame: FrameType) -> int:
    """Bytes of a code object before its instructions, as its frame says."""
    return (_word(_inner(frame) + AT) or 0) - frame.f_lasti - id(frame.f_code)


_known = sys.implementation.name == "cpython" and sys.version_info[:2] == (3, 11) and _WORD == 8
SURE = _known and not hasattr(sys, "gettotalrefcount")  # not a build for debugging
SURE = SURE and _tried()
