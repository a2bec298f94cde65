"""The `columns` form for narrow vectors. In: a frame. Out: loops that read rows in the order of their memory.

The panel of columns.py is narrow where vectors are, and would read a line here and a line there. So a strip of
columns, as wide as the L1 cache can hold its sums, takes row after row; of rows wider than that some at a time, so that
sums are loaded and stored less often. Of several sums of narrow rows, loads and stores are most of the work: a block of
rows is gone over panel by panel after all, and the next block is fetched meanwhile. Bits are those of columns.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from tilewise.backend.llvm.emit.bodies import beside, widest
from tilewise.backend.llvm.emit.control import ceil_div, each, loop, minimum
from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.spec import UNIT, VectorUnit
from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.loops.prefetch import LINE_BYTES, fetch
from tilewise.backend.llvm.loops.reducers import Accumulators
from tilewise.backend.llvm.loops.sums import CHAINS, CHUNK_ROWS, LEVELS, Stack, State, push, total
from tilewise.backend.llvm.loops.walk import chunks, row, store_plain
from tilewise.kernel.loops import Kernel
from tilewise.tuning import tuned

STRIP_BYTES = 4096  # of a row of sums
TOGETHER = 2 * CHAINS  # rows that are added at a time
PANEL = 16  # vectors of sums in registers, of several sums of narrow rows


def emit(frame: Frame) -> None:
    """for outer: for chunk: for strip: for block: for some rows: for column."""
    strip = _Strip(frame)

    def chunk(pointers: list[str], c: str, top: str, bottom: str) -> None:
        each(frame.fn, "0", frame.sizes[-1], str(strip.width), partial(strip.emit, pointers, c, top, bottom))

    chunks(frame, chunk)


def rows_at_a_time(kernel: Kernel, rows: int, columns: int, near: bool, machine: VectorUnit) -> int:
    """How many rows (near: that the caches have) are added at a time; 0 where a panel in registers takes less time."""
    dtypes = [t for t, o in zip(kernel.out_dtypes, kernel.outputs, strict=True) if not o.stored] + list(beside(kernel))
    row_bytes = columns * widest(kernel)
    figures = tuned()
    if rows < figures.strip_least_rows or row_bytes < figures.strip_least_row_bytes:
        return 0
    if near and rows * row_bytes < figures.strip_near_bytes:
        return 0
    if machine.by_lane and len(dtypes) > 1 and row_bytes <= figures.strip_panel_row_bytes:
        return CHUNK_ROWS
    return TOGETHER if columns * _bytes(dtypes) > STRIP_BYTES else 1


def _bytes(dtypes: Iterable[str]) -> int:
    """Of the sums of a column."""
    return sum(np.dtype(t).itemsize for t in dtypes)


class _Strip:
    """Some columns, whose sums lie in memory."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.fn, self.accs = frame, frame.fn, Accumulators(frame)
        dtypes = [part.dtype for part in self.accs.parts]
        self.width = max(1, STRIP_BYTES // _bytes(dtypes) // frame.lanes) * frame.lanes
        self.sums = Stack(frame.fn, dtypes, self.width, CHAINS)
        self.stack = Stack(frame.fn, dtypes, self.width, LEVELS)

    def emit(self, pointers: list[str], chunk: str, top: str, bottom: str, left: str) -> None:
        """Code for the strip that starts at column `left`."""
        fn = self.fn
        right = minimum(fn, fn.let(f"add i64 {left}, {self.width}"), self.frame.sizes[-1])
        blocks = ceil_div(fn, fn.let(f"sub i64 {bottom}, {top}"), str(CHUNK_ROWS))

        def block(b: str) -> None:
            first = fn.let(f"add i64 {top}, {fn.let(f'mul i64 {b}, {CHUNK_ROWS}')}")
            last = minimum(fn, fn.let(f"add i64 {first}, {CHUNK_ROWS}"), bottom)
            self._block(pointers, first, last, left, right)
            self._columns(left, right, lambda column, lane, lanes: self._push(b, lane, lanes))

        each(fn, "0", blocks, "1", block)
        places = self.accs.places(pointers, -2, chunk)

        def finish(column: str, lane: str, lanes: int) -> None:
            sums = total(self.stack.part(lane, lanes), blocks, self.accs.merge)
            for part, place, value in zip(self.accs.parts, places, sums, strict=True):
                if part.operand is not None:
                    k = part.operand
                    self.frame.write(k, self.frame.address(k, [place] * (k + 1), column), value, None)

        self._columns(left, right, finish)

    def _columns(self, left: str, right: str, point: Callable[[str, str, int], None], wide: int = 0) -> None:
        """Code for the columns of a strip: point(column, its place in the strip, lanes)."""

        def at(column: str, lanes: int, mask: Val | None) -> None:
            point(column, self.fn.let(f"sub i64 {column}, {left}"), lanes)

        row(self.frame, left, right, at, wide=wide)

    def _push(self, b: str, lane: str, lanes: int) -> None:
        """Merge the chains of a block, and them with those of blocks before."""
        sums = self.sums.part(lane, lanes)
        states = [sums.load(str(i)) for i in range(CHAINS)]
        while len(states) > 1:
            states = [self.accs.merge(a, b) for a, b in zip(states[::2], states[1::2], strict=True)]
        push(self.stack.part(lane, lanes), b, states[0], self.accs.merge)

    def _block(self, pointers: list[str], first: str, last: str, left: str, right: str) -> None:
        """The rows first … last, added in chains: every fourth row, and the last ones to the first chain."""
        fn, together = self.fn, self.frame.spec.strip
        if together == CHUNK_ROWS:
            self._by_panels(pointers, first, last, left, right)
            return

        def start(column: str, lane: str, lanes: int) -> None:
            for i in range(CHAINS):
                self.sums.part(lane, lanes).store(str(i), self.accs.start(lanes))

        self._columns(left, right, start)
        count = fn.let(f"sub i64 {last}, {first}")
        if together > 1:
            middle = fn.let(f"add i64 {first}, {fn.let(f'and i64 {count}, {-together}')}")
            numbers = [str(i % CHAINS) for i in range(together)]
            each(fn, first, middle, str(together), lambda r: self._rows(pointers, r, numbers, left, right))
        else:
            middle = first
        whole = fn.let(f"and i64 {count}, {-CHAINS}")

        def one(r: str) -> None:
            index = fn.let(f"sub i64 {r}, {first}")
            inside = fn.let(f"icmp slt i64 {index}, {whole}")
            chain = fn.let(f"select i1 {inside}, i64 {fn.let(f'and i64 {index}, {CHAINS - 1}')}, i64 0")
            self._rows(pointers, r, [chain], left, right)

        each(fn, middle, last, "1", one)

    def _by_panels(self, pointers: list[str], first: str, last: str, left: str, right: str) -> None:
        """The same, a chain of a panel after the other: its sums are in registers."""
        frame, fn = self.frame, self.fn
        whole = fn.let(f"and i64 {fn.let(f'sub i64 {last}, {first}')}, {-CHAINS}")
        middle = fn.let(f"add i64 {first}, {whole}")

        def chains(column: str, lane: str, lanes: int) -> None:
            def add(r: str, state: State) -> State:
                at = frame.row_pointers(pointers, frame.spec.rank - 2, r)
                self._fetch_block(at, column, lanes)
                values = frame.values(at, column, frame.uniform(at), lanes, None)
                store_plain(frame, values, at, column, None)
                return self.accs.add(state, values, at, column, None)

            for c in range(CHAINS):
                start = fn.let(f"add i64 {first}, {c}")
                found = loop(fn, start, middle, str(CHAINS), add, self.accs.start(lanes))
                self.sums.part(lane, lanes).store(str(c), found)

        vectors = 1 << max(0, (PANEL // len(self.accs.parts)).bit_length() - 1)
        self._columns(left, right, chains, wide=vectors * frame.lanes)
        each(fn, middle, last, "1", lambda r: self._rows(pointers, r, ["0"], left, right))

    def _fetch_block(self, at: list[str], column: str, lanes: int) -> None:
        """Fetch what the next block has in the place of these lanes."""
        frame, fn = self.frame, self.fn
        for k in range(frame.n_inputs):
            if frame.spec.classes[k] == UNIT:
                far = fn.hoist(f"mul i64 {frame.strides[k][-2]}, {CHUNK_ROWS}")
                there = fn.let(f"getelementptr i8, ptr {frame.address(k, at, column)}, i64 {far}")
                for line in range(0, lanes * np.dtype(frame.dtypes[k]).itemsize, LINE_BYTES):
                    fetch(fn, fn.let(f"getelementptr i8, ptr {there}, i64 {line}"))

    def _rows(self, pointers: list[str], first: str, numbers: list[str], left: str, right: str) -> None:
        """Rows from the first on, each added to the sums of its chain."""
        frame, fn = self.frame, self.fn
        rows = [fn.let(f"add i64 {first}, {i}") for i in range(len(numbers))]
        ats = [frame.row_pointers(pointers, frame.spec.rank - 2, r) for r in rows]
        fixed = [frame.uniform(at) for at in ats]

        def add(column: str, lane: str, lanes: int) -> None:
            sums = self.sums.part(lane, lanes)
            for number in dict.fromkeys(numbers):
                state: State = sums.load(number)
                for at, known in [(ats[k], fixed[k]) for k, n in enumerate(numbers) if n == number]:
                    values = frame.values(at, column, known, lanes, None)
                    store_plain(frame, values, at, column, None)
                    state = self.accs.add(state, values, at, column, None)
                sums.store(number, state)

        self._columns(left, right, add, wide=2 * frame.lanes if len(numbers) == 1 else 0)
