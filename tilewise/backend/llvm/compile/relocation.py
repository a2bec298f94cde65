"""What code knows of where things are. In: the bytes of code, a relocation of its object file. Out: the bytes, patched.

One `Rules` per CPU. Numbers are those of each CPU's ELF supplement.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from tilewise.kernel.family import ARM, X86
from tilewise.records import dataclass

_INT, _LONG, _WORD = struct.Struct("<i"), struct.Struct("<q"), struct.Struct("<I")
PAGE = 4096


class Unknown(Exception):
    """An object file with something that our linker does not know."""


@dataclass(frozen=True)
class Rules:
    """How the code of a CPU says where something is."""

    machine: int  # the number of the CPU in an ELF file
    jump: bytes  # 8 bytes of code that go on at the address in the 8 bytes behind them
    address: int  # the type of a relocation that is an absolute address
    slots: frozenset[int]  # types that want the place of an address
    fill: Callable[[bytearray, int, int, int], None]  # of (bytes, at, type, where the thing is)
    jump_over: Callable[[int], bytes]  # 8 bytes of code that go on at the address that is so many bytes behind them


def _fill_x86(code: bytearray, at: int, how: int, there: int) -> None:
    if how not in (2, 4, 9, 41, 42):  # PC32 and PLT32, the table of addresses in three ways
        raise Unknown(f"a relocation of type {how}")
    _INT.pack_into(code, at, there - at)


# How many bits of an offset in a page an instruction leaves away: those of what it loads or stores.
_IN_PAGE = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4, 312: 3}
_PAGES, _BRANCHES = (275, 311), (282, 283)
_DISTANCES = {260: _LONG, 261: _INT}


def _fill_arm(code: bytearray, at: int, how: int, there: int) -> None:
    distance = there - at
    if how in _DISTANCES:
        _DISTANCES[how].pack_into(code, at, distance)
        return
    (word,) = _WORD.unpack_from(code, at)
    if how in _PAGES and -(1 << 32) <= distance < 1 << 32:  # adrp: images begin at a page
        pages = there // PAGE - at // PAGE
        word |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    elif how in _IN_PAGE and there % (1 << _IN_PAGE[how]) == 0:
        word |= there % PAGE >> _IN_PAGE[how] << 10
    elif how in _BRANCHES and -(1 << 27) <= distance < 1 << 27:
        word |= distance >> 2 & 0x3FFFFFF
    else:
        raise Unknown(f"a relocation of type {how} over {distance} bytes")
    _WORD.pack_into(code, at, word)


def _jump_x86(distance: int) -> bytes:
    """jmp [rip + distance - 6], the length of the instruction."""
    return bytes.fromhex("ff25") + _INT.pack(distance - 6) + bytes.fromhex("9090")


def _jump_arm(distance: int) -> bytes:
    """ldr x16, distance; br x16."""
    return _WORD.pack(0x58000010 | distance // 4 << 5) + _WORD.pack(0xD61F0200)


_X86 = Rules(62, _jump_x86(8), 1, frozenset([9, 41, 42]), _fill_x86, _jump_x86)
_ARM = Rules(183, _jump_arm(8), 257, frozenset([311, 312]), _fill_arm, _jump_arm)
RULES = _X86 if X86 else _ARM if ARM else None
