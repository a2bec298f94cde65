"""Object code to a place in memory where it runs. In: an ELF file for this CPU. Out: an address and its owner.

Our own, because it takes a tenth of the time of LLVM's and needs no LLVM in the process; the memory goes back when its
owner is let go. Knows what generated code has: text, constants, calls of the C library. For anything else `Unknown` is
raised, and LLVM's linker is asked.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from tilewise.backend.llvm.compile.relocation import RULES, Rules, Unknown
from tilewise.kernel.family import ARM

_HEADER = struct.Struct("<4sBB10xHH20xQ10xHHH")  # magic, class, order, type, machine, section table, its shape
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8  # types of sections
_WRITE, _ALLOC = 1, 2  # flags of sections
_RELOCATABLE, _UNDEFINED = 1, 0
NOTHING: Mapping[str, int] = MappingProxyType({})


class _Elf:
    """The tables of an object file."""

    def __init__(self, code: bytes, machine: int) -> None:
        self.code = code
        try:
            magic, wide, order, kind, cpu, at, size, count, _ = _HEADER.unpack_from(code)
            if (magic, wide, order, kind, cpu, size) != (b"\x7fELF", 2, 1, _RELOCATABLE, machine, _SECTION.size):
                raise Unknown("not an object file for this CPU")
            self.sections = [_SECTION.unpack_from(code, at + i * size) for i in range(count)]
            tables = [s for s in self.sections if s[1] == _SYMBOLS]
            if len(tables) != 1:
                raise Unknown(f"{len(tables)} symbol tables")
            _, _, _, _, start, length, link, *_ = tables[0]
            self.symbols = list(_SYMBOL.iter_unpack(code[start : start + length]))
            self._names = self.sections[link][4]
        except (struct.error, IndexError) as error:
            raise Unknown(str(error)) from None

    def name(self, symbol: int) -> str:
        """The name of a symbol."""
        start = self._names + self.symbols[symbol][0]
        return self.code[start : self.code.index(b"\0", start)].decode()


class _Image:
    """Sections laid out one after the other, and a table of the outer functions that they use behind them."""

    def __init__(self, elf: _Elf, rules: Rules, given: Mapping[str, int]) -> None:
        self.elf = elf
        self._rules = rules
        self._given = given
        self.bytes = bytearray()
        self.places: dict[int, int] = {}
        self._outer: dict[str, int] = {}
        self.absolute: list[tuple[int, int]] = []  # where an address goes, relative to the image's start: what
        for index, (_, kind, flags, _, start, size, _, _, align, _) in enumerate(elf.sections):
            if flags & _ALLOC and size:
                if flags & _WRITE or kind == _NO_BITS:
                    raise Unknown("data that is written")
                self._align(align)
                self.places[index] = len(self.bytes)
                self.bytes += elf.code[start : start + size]
        # Where the symbols of the file are; None for those that are elsewhere.
        self.symbols: list[int | None] = [
            self.places[s[3]] + s[4] if s[3] in self.places else None for s in elf.symbols
        ]

    def _align(self, align: int) -> None:
        self.bytes += bytes(-len(self.bytes) % max(align, 1))

    def symbol(self, index: int) -> int:
        """Where a symbol of the file is."""
        found = self.symbols[index]
        if found is None:
            raise Unknown(f"a symbol in section {self.elf.symbols[index][3]}")
        return found

    def outer(self, name: str) -> int:
        """Where the jump to an outer function is; its address follows 8 bytes later."""
        if name not in self._outer:
            self._align(8)
            self._outer[name] = len(self.bytes)
            address = self._given[name] if name in self._given else address_of(name)
            self.bytes += self._rules.jump + struct.pack("<Q", address)
        return self._outer[name]

    def relocate(self) -> None:
        """Fill in what the code needs to know of where things are."""
        for _, kind, _, _, start, size, _, section, *_ in self.elf.sections:
            if kind == _RELOCATIONS and section in self.places:
                base = self.places[section]
                for offset, how, symbol, addend in _RELOCATION.iter_unpack(self.elf.code[start : start + size]):
                    self._one(base + offset, how, symbol, addend)

    def _one(self, at: int, how: int, symbol: int, addend: int) -> None:
        rules, there = self._rules, self.symbols[symbol]
        if how == rules.address:
            self.absolute.append((at, self.symbol(symbol) + addend))
        elif how in rules.slots:
            rules.fill(self.bytes, at, how, self._elsewhere(symbol) + 8 + addend)
        else:
            rules.fill(self.bytes, at, how, (self._elsewhere(symbol) if there is None else there) + addend)

    def _elsewhere(self, symbol: int) -> int:
        """Where the jump to a function that is not in the file is."""
        section = self.elf.symbols[symbol][3]
        if section != _UNDEFINED:
            raise Unknown(f"a symbol in section {section}")
        return self.outer(self.elf.name(symbol))


@cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def address_of(name: str) -> int:
    """Where a function of the C library is."""
    try:
        found = ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value
    except AttributeError:
        raise Unknown(f"the function {name}") from None
    assert found
    return found


def _executable(image: _Image) -> tuple[int, object]:
    """Memory with the image in it, no longer writable."""
    memory = mmap.mmap(-1, len(image.bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held = ctypes.c_char.from_buffer(memory)  # while this lives the memory cannot be closed
    start = ctypes.addressof(held)
    for at, value in image.absolute:
        struct.pack_into("<Q", image.bytes, at, start + value)
    memory[: len(image.bytes)] = bytes(image.bytes)
    make_executable(start, len(image.bytes))
    return start, held


def make_executable(start: int, size: int) -> None:
    """Make pages of memory that were written executable, and no longer writable."""
    protect = _process().mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(start, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC):
        raise Unknown("memory that may not become executable")
    if ARM:
        _agree()(start, start + size)


@cache
def _agree() -> Callable[[int, int], None]:
    """What makes the cores' instruction caches agree with memory (from, to). The kernel's own care is not enough: some
    cores run stale instructions of memory that another core has written, unless the program asks for this."""
    try:
        found = ctypes.CDLL("libgcc_s.so.1")["__clear_cache"]
    except (OSError, AttributeError):
        raise Unknown("how caches are made to agree") from None
    found.argtypes, found.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    return found


def linked(code: bytes, name: str, given: Mapping[str, int] = NOTHING) -> tuple[int, object]:
    """The address of a function in an object file, and what keeps it in memory. `given`: where other symbols are."""
    if RULES is None:
        raise Unknown("this CPU")
    elf = _Elf(code, RULES.machine)
    image = _Image(elf, RULES, given)
    image.relocate()
    entries = [i for i, s in enumerate(elf.symbols) if s[3] != _UNDEFINED and elf.name(i) == name]
    if len(entries) != 1:
        raise Unknown(f"{len(entries)} functions {name}")
    entry = image.symbol(entries[0])
    start, owner = _executable(image)
    return start + entry, owner
