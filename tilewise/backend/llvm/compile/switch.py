"""An address that can lead to other code later. In: addresses of code. Out: one that jumps to the latest of them.

Calls keep the address of a kernel in tables of their own. While a kernel has only quick code, they have the address of
a switch; when its good code is there, one store of 8 bytes leads all later calls to it. Calls that are under way go on
in the code that they are in.
"""

from __future__ import annotations

import ctypes
import mmap

from tilewise.backend.llvm.compile import linker
from tilewise.backend.llvm.compile.relocation import RULES, Unknown

CELL = 16  # bytes from one switch to the next: a jump in a page of code, its address in the page of data behind it
_free: list[_Page] = []  # the page that has room, if there is one


class _Page:
    """A page of jumps and a page of where they lead to."""

    def __init__(self) -> None:
        if RULES is None:
            raise Unknown("this CPU")
        size = mmap.PAGESIZE
        self._memory = mmap.mmap(-1, 2 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory[:size] = RULES.jump_over(size).ljust(CELL, b"\0") * (size // CELL)
        self._held = ctypes.c_char.from_buffer(self._memory)  # while this lives the memory cannot be closed
        self.start = ctypes.addressof(self._held)
        self.used = 0
        linker.make_executable(self.start, size)


class Switch:
    """A place in such a page. It keeps all the code that it has led to, for calls may be under way in it."""

    def __init__(self, address: int, owner: object) -> None:
        if not _free or _free[-1].used == mmap.PAGESIZE:
            _free[:] = [_Page()]
        self._page = _free[-1]
        self.address = self._page.start + self._page.used
        self._page.used += CELL
        self._owners: list[object] = []
        self.lead(address, owner)

    def lead(self, address: int, owner: object) -> None:
        """Lead later calls to other code."""
        self._owners.append(owner)
        ctypes.c_uint64.from_address(self.address + mmap.PAGESIZE).value = address
