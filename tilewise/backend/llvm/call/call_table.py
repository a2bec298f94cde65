"""The loop over tiles. In: a table of calls. Out: one native function that makes them all, tile after tile.

Words of the table: how many calls; then for each call the addresses of its code, its operands and its geometry, the
number of operands, and the address of three words for each operand: its offset in bytes, the bytes from tile to tile,
and from chunk to chunk. Words of the range: first tile, tile after the last, chunk. The offsets of a geometry are its
first words; they are set before every call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from tilewise.backend.llvm.compile.build import Native, native
from tilewise.backend.llvm.emit.control import each, word
from tilewise.backend.llvm.emit.text import Function

CALL_WORDS = 5
OPERAND_WORDS = 3


def build(name: str) -> Function:
    """The function."""
    fn = Function(name, "ptr noalias %objs, ptr noalias %geom")

    first, stop, chunk = (word(fn, "%geom", i) for i in range(3))
    count = word(fn, "%objs", 0)
    calls = fn.let("getelementptr i64, ptr %objs, i64 1")

    def tile(t: str) -> None:
        def call(c: str) -> None:
            row = fn.let(f"getelementptr i64, ptr {calls}, i64 {fn.let(f'mul i64 {c}, {CALL_WORDS}')}")
            code, operands, geometry = (word(fn, row, i, "ptr") for i in range(3))
            number, steps = word(fn, row, 3), word(fn, row, 4, "ptr")

            def offset(k: str) -> None:
                own = fn.let(f"getelementptr i64, ptr {steps}, i64 {fn.let(f'mul i64 {k}, {OPERAND_WORDS}')}")
                along = fn.let(f"mul i64 {t}, {word(fn, own, 1)}")
                down = fn.let(f"mul i64 {chunk}, {word(fn, own, 2)}")
                moved = fn.let(f"add i64 {fn.let(f'add i64 {along}, {down}')}, {word(fn, own, 0)}")
                at = fn.let(f"getelementptr i64, ptr {geometry}, i64 {k}")
                fn.do(f"store i64 {moved}, ptr {at}, align 8")

            each(fn, "0", number, "1", offset)
            fn.do(f"call void {code}(ptr {operands}, ptr {geometry})")

        each(fn, "0", count, "1", call)

    each(fn, first, stop, "1", tile)
    return fn


def driver() -> Native:
    """The function, compiled."""
    return native("drive", build)


@cache
def drive() -> Callable[[int | bytes, int | bytes], None]:
    """The function as one of the address of a table, and a range."""
    return by_address(driver())


def by_address(code: Native) -> Callable[[int | bytes, int | bytes], None]:
    """A function whose arguments may be given as addresses."""
    function: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address(code))
    function.code = code  # its memory lives as long as it does
    return function  # type: ignore[no-any-return]


def address(code: Callable[..., None]) -> int:
    """Where the code of a function begins."""
    found = ctypes.cast(code, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert found is not None
    return found
