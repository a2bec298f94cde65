"""Parts handed out by native code. In: a function, a geometry per part. Out: every part has run, on all threads.

Each thread makes one call and takes parts from a counter in memory until there are none. Asking Python for each part
takes the GIL, which a helper that is not running may hold. Words: the next part, how many there are, the address of the
function, and those of the geometries.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tilewise.target import threads
from tilewise.target.llvm.build import Native, native
from tilewise.target.llvm.drive import address
from tilewise.target.llvm.text import Function

FIRST = 3  # word of the geometries


class Parts:
    """A function and its parts."""

    def __init__(self, code: Native, geometries: Sequence[bytes]) -> None:
        self._kept = code, geometries  # whose addresses are in the words
        places = [ctypes.cast(ctypes.c_char_p(g), ctypes.c_void_p).value for g in geometries]
        self._words = np.array([0, len(geometries), address(code), *places], np.int64)

    def run(self, objs: bytes) -> None:
        """All parts, with these operands."""
        words, go = self._words.copy(), _taking()
        at = words.ctypes.data
        threads.run(lambda _: go(at, objs), min(len(words) - FIRST, threads.get_threads()))


def build(name: str) -> Function:
    """The function that a thread calls: of the words, and the operands of all parts."""
    fn = Function(name, "ptr %objs, ptr %geom")

    def word(index: str | int, ty: str = "i64") -> str:
        at = fn.let(f"getelementptr i64, ptr %objs, i64 {index}")
        return fn.let(f"load {ty}, ptr {at}, align 8")

    count, code = word(1), word(2, "ptr")
    head, body, after = fn.fresh("head"), fn.fresh("body"), fn.fresh("after")
    fn.do(f"br label %{head}")
    fn.label(head)
    part = fn.let("atomicrmw add ptr %objs, i64 1 monotonic, align 8")
    there = fn.let(f"icmp slt i64 {part}, {count}")
    fn.do(f"br i1 {there}, label %{body}, label %{after}")
    fn.label(body)
    geometry = word(fn.let(f"add i64 {part}, {FIRST}"), "ptr")
    fn.do(f"call void {code}(ptr %geom, ptr {geometry})")
    fn.do(f"br label %{head}")
    fn.label(after)
    return fn


@cache
def _taking() -> Callable[[int, bytes], None]:
    """The function, compiled."""
    code = native("parts", build)
    function: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(address(code))
    function.code = code  # its memory lives as long as it does
    return function  # type: ignore[no-any-return]
