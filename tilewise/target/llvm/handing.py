"""Parts handed out by native code. In: a function, the calls of every part. Out: every part has run, on some thread.

Each thread makes one call. It takes the parts of its own range, so that a program which runs again finds in a core's
cache what it left there, then those that other threads have not come to. Asking Python for each part would take the
GIL, which a helper that is not running may hold.

Words: how many threads and parts, the address of the function, the first call of each part (and the end), then two for
each call: which operands, and where its geometry is; and for each thread a cache line with its next part and its last.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from tilewise.target import threads
from tilewise.target.llvm.build import Native, native
from tilewise.target.llvm.calling import prepare, together
from tilewise.target.llvm.control import each, word, word_at
from tilewise.target.llvm.drive import address, by_address
from tilewise.target.llvm.text import Function

FIRST = 3  # word of the first calls of parts
LINE = 8  # words of a cache line


class Parts:
    """A function, and parts of calls of it: the number of the operands, and a geometry."""

    def __init__(self, code: Native, parts: Sequence[Sequence[tuple[int, bytes]]]) -> None:
        self._kept = code, parts  # whose addresses are in the words
        starts, calls = [0], []
        for part in parts:
            calls += [w for number, geometry in part for w in (number, place_of(geometry))]
            starts.append(len(calls) // 2)
        self._count = len(parts)
        self._words = [len(parts), address(code), *starts, *calls]
        self._idle: dict[int, list[_Block]] = {}  # by threads

    def run(self, operands: Callable[[], Sequence[int]], short: bool = False) -> None:
        """All parts; `operands` gives a thread the addresses of its own. `short`: not worth waking a thread.

        They are made before any thread begins: a helper would wait for the GIL to make them.
        """
        count, (go, code) = min(self._count, threads.get_threads()), _taking()
        given = [operands() for _ in range(count)]
        idle = self._idle.setdefault(count, [])
        block = idle.pop() if idle else _Block(self._words, self._count, count, len(given[0]))
        at, own = block.ready(given)
        threads.run(lambda k: go(at, own[k]), count, lambda helpers: together(helpers, code, at, own), short)
        idle.append(block)


class _Block:
    """Words for the runs of some threads, and what each of them is given: its number, where its range is, operands."""

    def __init__(self, words: Sequence[int], parts: int, count: int, operands: int) -> None:
        lines = -(-(1 + len(words)) // LINE) * LINE
        size = operands + 2
        raw = np.zeros(lines + LINE * (count + 1) + count * size, np.int64)
        start = -(raw.ctypes.data // raw.itemsize) % LINE
        memory = raw[start:]
        self._view, self._place = memory.data, memory.ctypes.data
        self._view[: 1 + len(words)] = np.array([count, *words], np.int64).data
        edges = [parts * k // count for k in range(count + 1)]
        self._ranges = [(lines + LINE * k, low, high) for k, (low, high) in enumerate(pairwise(edges))]
        self._rows = [lines + LINE * count + size * k for k in range(count)]
        self._own = [self._place + 8 * row for row in self._rows]
        for k, row in enumerate(self._rows):
            self._view[row], self._view[row + 1] = k, self._place + 8 * lines

    def ready(self, given: Sequence[Sequence[int]]) -> tuple[int, list[int]]:
        """Where the words are, with all parts to be taken; and what is given to each thread."""
        view = self._view
        for at, low, high in self._ranges:
            view[at], view[at + 1] = low, high
        for row, operands in zip(self._rows, given, strict=True):
            for k, operand in enumerate(operands, row + 2):
                view[k] = operand
        return self._place, self._own


def place_of(block: bytes) -> int:
    """Where bytes are."""
    found = ctypes.cast(ctypes.c_char_p(block), ctypes.c_void_p).value
    assert found is not None
    return found


def build(name: str) -> Function:
    """The function that a thread calls: of the words, and the addresses of its operands."""
    fn = Function(name, "ptr %objs, ptr %geom")

    count, parts, code = word(fn, "%objs", 0), word(fn, "%objs", 1), word(fn, "%objs", 2, "ptr")
    me, lines, mine = word(fn, "%geom", 0), word(fn, "%geom", 1, "ptr"), word_at(fn, "%geom", 2)
    calls = fn.let(f"add i64 {parts}, {FIRST + 1}")

    def call(c: str) -> None:
        at = fn.let(f"add i64 {calls}, {fn.let(f'shl i64 {c}, 1')}")
        operands = word(fn, mine, word(fn, "%objs", at), "ptr")
        geometry = word(fn, "%objs", fn.let(f"add i64 {at}, 1"), "ptr")
        fn.do(f"call void {code}(ptr {operands}, ptr {geometry})")

    def whole_range(turn: str) -> None:
        """All parts that are left of the range of a thread: of this one, then of the next."""
        thread = fn.let(f"urem i64 {fn.let(f'add i64 {me}, {turn}')}, {count}")
        line = fn.let(f"getelementptr i64, ptr {lines}, i64 {fn.let(f'mul i64 {thread}, {LINE}')}")
        stop = word(fn, line, 1)
        head, body, after = fn.fresh("head"), fn.fresh("body"), fn.fresh("after")
        fn.do(f"br label %{head}")
        fn.label(head)
        part = fn.let(f"atomicrmw add ptr {line}, i64 1 monotonic, align 8")
        there = fn.let(f"icmp slt i64 {part}, {stop}")
        fn.do(f"br i1 {there}, label %{body}, label %{after}")
        fn.label(body)
        first = fn.let(f"add i64 {part}, {FIRST}")
        each(fn, word(fn, "%objs", first), word(fn, "%objs", fn.let(f"add i64 {first}, 1")), "1", call)
        fn.do(f"br label %{head}")
        fn.label(after)

    each(fn, "0", count, "1", whole_range)
    return fn


@cache
def _taking() -> tuple[Callable[[int, int | bytes], None], int]:
    """The function, compiled, and where it is; what helpers need to be called is there, too."""
    prepare()
    go = by_address(native("parts", build))
    return go, address(go)
