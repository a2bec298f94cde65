"""Operands without other references. In: an operand, its references. Out: whether its memory may be reused.

NumPy writes the result of `a + b + c` over the intermediate result of `a + b`. Our handles hide from it that nobody
else has that: this does the same for them.
"""

from __future__ import annotations

import builtins
import dis
import opcode
import sys
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tilewise.array.arithmetic import ND
from tilewise.array.stack import is_operand


class _Probe:
    """Measures how many references an operator sees to its operands, if only the expression has them."""

    __slots__ = ()

    def __add__(self, other: object) -> tuple[int, int]:
        return sys.getrefcount(self), sys.getrefcount(other)


_left, _right = _Probe(), _Probe()
# Where operands with names count the same (interpreters that borrow references), none is known to be temporary.
TEMPORARY, TEMPORARY_RIGHT = (
    alone if alone < named else 0 for alone, named in zip(_Probe() + _Probe(), _left + _right, strict=True)
)
EITHER = frozenset((np.add, np.multiply))  # NumPy reuses the right operand of these only

_CELL_ALONE = 4  # the handle, two local names, getrefcount's argument
_REUSING = frozenset((np.add, np.subtract, np.multiply, np.divide))
_BINARY_OP, _CALL = opcode.opmap.get("BINARY_OP", -1), opcode.opmap.get("CALL", -1)
_OPERATOR, _SUM, _OTHER = range(3)  # what stands at a place
_places: dict[tuple[int, int], tuple[CodeType, int]] = {}  # with the code, which keeps its id its own


def reusable(ufunc: np.ufunc, cell: Any, a: Any, b: Any, handle: Any, *, right: bool = False) -> bool:
    """Whether an operand, the left or the right one, is the intermediate result of an expression that nobody can see.

    The caller must be Python code at an operator whose operand it is, or at `sum(... for ...)`: other C code, as the
    loops of arrays of objects, may hold the only reference to an operand and still need it.
    """
    if ufunc not in _REUSING or a is not cell.buf or a.dtype.kind != "f" or not a.flags.writeable:
        return False
    if cell.leaf is not None or cell.exports is not None or sys.getrefcount(cell) > _CELL_ALONE:
        return False
    if type(b) is ND and (b.dtype != a.dtype or b.shape != a.shape):
        return False
    if type(b) is not ND and type(b) is not float and type(b) is not int:
        return False
    frame = sys._getframe(2)
    place = (id(frame.f_code), frame.f_lasti)
    found = _places.get(place)
    if found is None:
        if len(_places) > 4096:
            _places.clear()
        found = _places[place] = (frame.f_code, _what(frame.f_code, frame.f_lasti))
    if found[1] == _OPERATOR:
        return is_operand(frame, handle, 0 if right else 1)
    return found[1] == _SUM and _is_python(frame)


def _what(code: CodeType, at: int) -> int:
    """What stands at a place in code: an operator, a `sum` of a generator expression, or something else."""
    op = code.co_code[at]
    return _OPERATOR if op == _BINARY_OP else _sum_of(code, at) if op == _CALL else _OTHER


def _sum_of(code: CodeType, at: int) -> int:
    """Whether a call is one of `sum`, of a generator expression that makes what it yields by an operator."""
    upto = [i for i in dis.get_instructions(code) if i.offset <= at and i.opname not in ("PRECALL", "CACHE")]
    names = [i.opname for i in upto[-3:]]
    if names != ["GET_ITER", "CALL", "CALL"] or [i.argval for i in upto[-2:]] != [0, 1]:
        return _OTHER  # what runs inside of `sum` may be C code that holds its operands: `map`, say
    yields = [i.argval for i in upto if isinstance(i.argval, CodeType)]
    if not yields or not _yields_made(yields[-1]):
        return _OTHER
    positions = list(code.co_positions())
    line, _, column, _ = positions[at // 2]
    called = [i for i in upto if i.opname == "LOAD_GLOBAL" and i.argval == "sum"]
    starts = [positions[i.offset // 2] for i in called]
    return _SUM if line is not None and any((s[0], s[2]) == (line, column) for s in starts) else _OTHER


def _yields_made(code: CodeType) -> bool:
    names = [i.opname for i in dis.get_instructions(code) if i.opname != "CACHE"]
    before = [names[k - 1] for k, name in enumerate(names) if name == "YIELD_VALUE"]
    return before == ["BINARY_OP"]


def _is_python(frame: FrameType) -> bool:
    """Whether `sum` is Python's."""
    return frame.f_globals.get("sum", builtins.sum) is _sum and builtins.sum is _sum


_sum = sum
