"""Parts handed out by native code. In: a function, the calls of every part. Out: every part has run, on some thread.

Each thread makes one call and takes parts from a counter in memory until there are none. Asking Python for each part
takes the GIL, which a helper that is not running may hold. Words: the next part, how many there are, the address of the
function, the first call of each part (and the end), then two for each call: which operands, and where its geometry is.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from tilewise.target import threads
from tilewise.target.llvm.build import Native, native
from tilewise.target.llvm.control import each
from tilewise.target.llvm.drive import address, by_address
from tilewise.target.llvm.text import Function

FIRST = 3  # word of the first calls of parts


class Parts:
    """A function, and parts of calls of it: the number of the operands, and a geometry."""

    def __init__(self, code: Native, parts: Sequence[Sequence[tuple[int, bytes]]]) -> None:
        self._kept = code, parts  # whose addresses are in the words
        starts, calls = [0], []
        for part in parts:
            calls += [w for number, geometry in part for w in (number, _place(geometry))]
            starts.append(len(calls) // 2)
        self._count = len(parts)
        self._words = np.array([0, len(parts), address(code), *starts, *calls], np.int64)

    def run(self, operands: Callable[[], Sequence[int]]) -> None:
        """All parts; `operands` gives a thread the addresses of its own.

        They are made before any thread begins: a helper would wait for the GIL to make them.
        """
        words, go = self._words.copy(), _taking()
        at, count = words.ctypes.data, min(self._count, threads.get_threads())
        given = [struct.pack(f"<{len(own)}Q", *own) for own in (operands() for _ in range(count))]
        threads.run(lambda thread: go(at, given[thread]), count)


def _place(block: bytes) -> int:
    found = ctypes.cast(ctypes.c_char_p(block), ctypes.c_void_p).value
    assert found is not None
    return found


def build(name: str) -> Function:
    """The function that a thread calls: of the words, and the addresses of its operands."""
    fn = Function(name, "ptr %objs, ptr %geom")

    def word(index: str, ty: str = "i64", base: str = "%objs") -> str:
        at = fn.let(f"getelementptr i64, ptr {base}, i64 {index}")
        return fn.let(f"load {ty}, ptr {at}, align 8")

    count, code = word("1"), word("2", "ptr")
    calls = fn.let(f"add i64 {count}, {FIRST + 1}")
    head, body, after = fn.fresh("head"), fn.fresh("body"), fn.fresh("after")

    def call(c: str) -> None:
        at = fn.let(f"add i64 {calls}, {fn.let(f'shl i64 {c}, 1')}")
        operands = word(word(at), "ptr", "%geom")
        geometry = word(fn.let(f"add i64 {at}, 1"), "ptr")
        fn.do(f"call void {code}(ptr {operands}, ptr {geometry})")

    fn.do(f"br label %{head}")
    fn.label(head)
    part = fn.let("atomicrmw add ptr %objs, i64 1 monotonic, align 8")
    there = fn.let(f"icmp slt i64 {part}, {count}")
    fn.do(f"br i1 {there}, label %{body}, label %{after}")
    fn.label(body)
    first = fn.let(f"add i64 {part}, {FIRST}")
    each(fn, word(first), word(fn.let(f"add i64 {first}, 1")), "1", call)
    fn.do(f"br label %{head}")
    fn.label(after)
    return fn


@cache
def _taking() -> Callable[[int, bytes], None]:
    """The function, compiled."""
    return by_address(native("parts", build))
