"""Parts handed out by native code. In: a function, the calls of every part. Out: every part has run, on some thread.

Parts may follow each other in phases: those of one begin when all of the one before have ended.

Each thread makes one call. It takes the parts of its own range, so that a program which runs again finds in a core's
cache what it left there, then those that other threads have not come to. Asking Python for each part would take the
GIL, which a helper that is not running may hold.

Words: how many threads and phases, the address of the function, where the first calls of parts and where calls are;
the first part of each phase (and the end), the first call of each part (and the end), two for each call: which
operands, and where its geometry is. For each phase a cache line per thread with its next part and its last, and one
with how many parts have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, chain, pairwise

import numpy as np

from tilewise.backend import threads
from tilewise.backend.llvm.call.call_table import address, by_address
from tilewise.backend.llvm.call.helpers import ask as ask_to_call
from tilewise.backend.llvm.call.helpers import pause, prepare, together
from tilewise.backend.llvm.compile.build import Native, native
from tilewise.backend.llvm.emit.control import each, word, word_at
from tilewise.backend.llvm.emit.text import Function

FIRST = 5  # word of the first parts of phases
LINE = 8  # words of a cache line


class Parts:
    """A function, and phases of parts of calls of it: the number of the operands, and a geometry."""

    def __init__(self, code: Native, phases: Sequence[Sequence[Sequence[tuple[int, bytes]]]]) -> None:
        self._kept = code, phases  # whose addresses are in the words
        starts, calls = [0], []
        for part in chain.from_iterable(phases):
            calls += [w for number, geometry in part for w in (number, place_of(geometry))]
            starts.append(len(calls) // 2)
        self._edges = [0, *accumulate(map(len, phases))]
        self._count = max(map(len, phases))
        places = FIRST + len(self._edges), FIRST + len(self._edges) + len(starts)
        self._words = [len(phases), address(code), *places, *self._edges, *starts, *calls]
        self._idle: dict[int, list[_Block]] = {}  # by threads

    def run(self, operands: Callable[[], Sequence[int]], short: bool = False) -> None:
        """All parts; `operands` gives a thread the addresses of its own. `short`: not worth waking a thread.

        They are made before any thread begins: a helper would wait for the GIL to make them.
        """
        count, (go, code) = min(self._count, threads.get_threads()), taking()
        given = [operands() for _ in range(count)]
        idle = self._idle.setdefault(count, [])
        block = idle.pop() if idle else _Block(self._words, self._edges, count, len(given[0]))
        at, own = block.ready(given)
        threads.run(lambda k: go(at, own[k]), count, lambda helpers: together(helpers, code, at, own), short)
        idle.append(block)


class _Block:
    """Words for the runs of some threads, and what each of them is given: its number, where ranges are, operands."""

    def __init__(self, words: Sequence[int], phases: Sequence[int], count: int, operands: int) -> None:
        lines = -(-(1 + len(words)) // LINE) * LINE
        each, size = LINE * (count + 1), operands + 2  # words of a phase, of a thread
        rows = lines + each * (len(phases) - 1)
        raw = np.zeros(rows + LINE + count * size, np.int64)
        start = -(raw.ctypes.data // raw.itemsize) % LINE
        memory = raw[start:]
        self._view, self._place = memory.data, memory.ctypes.data
        self._view[: 1 + len(words)] = np.array([count, *words], np.int64).data
        self._ranges: list[tuple[int, int, int]] = []  # where two words are, and what they are at first
        for p, (first, last) in enumerate(pairwise(phases)):
            edges = [first + (last - first) * k // count for k in range(count + 1)]
            here = lines + each * p
            self._ranges += [(here + LINE * k, low, high) for k, (low, high) in enumerate(pairwise(edges))]
            self._ranges.append((here + LINE * count, 0, 0))
        self._rows = [rows + size * k for k in range(count)]
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
    return id(block) + bytes.__basicsize__ - 1  # they end their object, with a zero


def build(name: str) -> Function:
    """The function that a thread calls: of the words, and the addresses of its operands."""
    fn = Function(name, "ptr %objs, ptr %geom")

    count, phases, code = word(fn, "%objs", 0), word(fn, "%objs", 1), word(fn, "%objs", 2, "ptr")
    starts, calls = word_at(fn, "%objs", word(fn, "%objs", 3)), word_at(fn, "%objs", word(fn, "%objs", 4))
    me, lines, mine = word(fn, "%geom", 0), word(fn, "%geom", 1, "ptr"), word_at(fn, "%geom", 2)
    size = fn.let(f"mul i64 {fn.let(f'add i64 {count}, 1')}, {LINE}")  # of the lines of a phase
    ended = fn.hoist("alloca i64, align 8")  # parts of this phase, by this thread

    def call(c: str) -> None:
        at = word_at(fn, calls, fn.let(f"shl i64 {c}, 1"))
        operands, geometry = word(fn, mine, word(fn, at, 0), "ptr"), word(fn, at, 1, "ptr")
        fn.do(f"call void {code}(ptr {operands}, ptr {geometry})")

    def whole_range(own: str, turn: str) -> None:
        """All parts that are left of the range of a thread: of this one, then of the next."""
        thread = fn.let(f"urem i64 {fn.let(f'add i64 {me}, {turn}')}, {count}")
        line = word_at(fn, own, fn.let(f"mul i64 {thread}, {LINE}"))
        stop = word(fn, line, 1)
        head, body, after = fn.fresh("head"), fn.fresh("body"), fn.fresh("after")
        fn.do(f"br label %{head}")
        fn.label(head)
        part = fn.let(f"atomicrmw add ptr {line}, i64 1 monotonic, align 8")
        there = fn.let(f"icmp slt i64 {part}, {stop}")
        fn.do(f"br i1 {there}, label %{body}, label %{after}")
        fn.label(body)
        start = word_at(fn, starts, part)
        each(fn, word(fn, start, 0), word(fn, start, 1), "1", call)
        fn.do(f"store i64 {fn.let(f'add i64 {word(fn, ended, 0)}, 1')}, ptr {ended}, align 8")
        fn.do(f"br label %{head}")
        fn.label(after)

    def phase(p: str) -> None:
        """All its parts; then, if another phase follows, until those of other threads have ended."""
        own = word_at(fn, lines, fn.let(f"mul i64 {p}, {size}"))
        fn.do(f"store i64 0, ptr {ended}, align 8")
        each(fn, "0", count, "1", lambda turn: whole_range(own, turn))
        more, wait, after = fn.fresh("more"), fn.fresh("wait"), fn.fresh("after")
        following = fn.let(f"add i64 {p}, 1")
        fn.do(f"br i1 {fn.let(f'icmp slt i64 {following}, {phases}')}, label %{more}, label %{after}")
        fn.label(more)
        first = word_at(fn, "%objs", fn.let(f"add i64 {p}, {FIRST}"))
        parts = fn.let(f"sub i64 {word(fn, first, 1)}, {word(fn, first, 0)}")
        done = word_at(fn, own, fn.let(f"mul i64 {count}, {LINE}"))
        fn.let(f"atomicrmw add ptr {done}, i64 {word(fn, ended, 0)} release, align 8")
        fn.do(f"br label %{wait}")
        fn.label(wait)
        pause(fn)
        now = fn.let(f"load atomic i64, ptr {done} acquire, align 8")
        fn.do(f"br i1 {fn.let(f'icmp slt i64 {now}, {parts}')}, label %{wait}, label %{after}")
        fn.label(after)

    each(fn, "0", phases, "1", phase)
    return fn


def ask() -> None:
    """Ask for what `taking` needs, within `build.asking`."""
    ask_to_call()
    native("parts", build)


@cache
def taking() -> tuple[Callable[[int | bytes, int | bytes], None], int]:
    """The function, compiled, and where it is; what helpers need to be called is there, too."""
    prepare()
    go = by_address(native("parts", build))
    return go, address(go)
