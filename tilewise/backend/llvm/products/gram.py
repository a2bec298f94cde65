"""X.T @ X on tiles of tall matrices. In: rows that move from tile to tile, sums. Out: a call that adds to the sums.

The result is symmetric: for a panel of columns only the rows from its first column on are computed (whoever adds up the
sums mirrors the rest). Some rows of the result by a panel stay in registers while a block of rows of X, which stays in
the L1 cache, goes by; the next block is fetched meanwhile. Within a block products are added one after the other, as
BLAS does. Where nothing can be masked, the last panel begins before its first new column. Words of the geometry: the
offsets of both operands, the rows and columns of X, bytes from row to row, rows of a block.
"""

from __future__ import annotations

import struct
from functools import cached_property, partial

import numpy as np

from tilewise import rounding
from tilewise.backend.llvm.call.tile_walk import Call, Ref
from tilewise.backend.llvm.compile.build import Native, native
from tilewise.backend.llvm.compile.cpu import host_machine
from tilewise.backend.llvm.emit.control import each, loop, minimum, within
from tilewise.backend.llvm.emit.frame import DATA_OFFSET
from tilewise.backend.llvm.emit.memory import load, store
from tilewise.backend.llvm.emit.spec import VectorUnit
from tilewise.backend.llvm.emit.text import Function, Val, fma
from tilewise.backend.llvm.loops.prefetch import L2, LINE_BYTES, fetch
from tilewise.backend.llvm.math.scalar import IR_TYPE
from tilewise.records import dataclass
from tilewise.tuning import tuned

UNROLLED = 4  # rows of X per iteration, where products take lanes: fewer loads
FETCHED = 2  # rows of these that fetch one line
PRODUCT_NS = 0.1  # of one thread, about: half of the products are made, two to four at once
LEAST_PANEL = 8  # columns, if four vectors have as many; else two vectors


def gram(x: Ref, sums: Ref, machine: VectorUnit | None = None, times: int = 1) -> Call | None:
    """The call for sums += x.T @ x (but for what mirrors the rest); None if x does not lie by rows, or is wide.

    `times`: how often it is done.
    """
    machine = machine or host_machine()
    dtype, (rows, columns) = x.array.dtype.name, x.array.shape
    most = rounding.GRAM_MOST_COLUMNS
    (pitch, step), size = x.array.strides, x.array.itemsize
    if not machine.fuses or not machine.vector_bytes or dtype not in ("float64", "float32") or columns > most:
        return None
    if not machine.masked and columns < (lanes := machine.vector_bytes // size) * panel_vectors(lanes):
        return None
    if (columns > 1 and step != size) or not sums.array.flags.c_contiguous:
        return None
    low, high = rounding.GRAM_BLOCK_ROWS
    block = min(max(rounding.GRAM_BLOCK_BYTES // (size * columns), low), high)
    busy = times * rows * columns * columns * PRODUCT_NS >= tuned().nearly_good_at_ns
    return Call(_code(dtype, machine, busy), (x, sums), (), struct.pack("<6q", 0, 0, rows, columns, pitch, block))


def panel_vectors(lanes: int) -> int:
    """The vectors of a panel."""
    return 4 if 4 * lanes <= LEAST_PANEL else 2


def _code(dtype: str, machine: VectorUnit, busy: bool) -> Native:
    return native(("gram", dtype, machine), lambda name: _Gram(name, dtype, machine).fn, machine.cpu, better=busy)


class _Gram:
    """The function of a dtype and a machine."""

    def __init__(self, name: str, dtype: str, machine: VectorUnit) -> None:
        self.fn = Function(name, "ptr noalias %objs, ptr noalias %geom")
        self.dtype, self.size = dtype, np.dtype(dtype).itemsize
        self.lanes, self.masked, self.by_lane = machine.vector_bytes // self.size, machine.masked, machine.by_lane
        self.vectors = panel_vectors(self.lanes)
        self.width, high = self.vectors * self.lanes, machine.registers // 2 // self.vectors
        # Rows of a register tile: as many as fit, then what is left.
        self.highs = [h for h in (high, 2, 1) if h <= high]
        self.x, self.sums = (self._operand(k) for k in range(2))
        rows, self.columns, self.pitch, block = (self._word("%geom", 2 + i) for i in range(4))
        each(self.fn, "0", rows, block, lambda low: self._block(low, minimum(self.fn, self._plus(low, block), rows)))

    def _word(self, base: str, index: int, kind: str = "i64") -> str:
        at = self.fn.hoist(f"getelementptr i64, ptr {base}, i64 {index}")
        return self.fn.hoist(f"load {kind}, ptr {at}, align 8")

    def _operand(self, k: int) -> str:
        field = self.fn.hoist(f"getelementptr i8, ptr {self._word('%objs', k, 'ptr')}, i64 {DATA_OFFSET}")
        data = self.fn.hoist(f"load ptr, ptr {field}, align 8")
        return self.fn.hoist(f"getelementptr i8, ptr {data}, i64 {self._word('%geom', k)}")

    def _plus(self, a: str, b: str | int) -> str:
        return self.fn.let(f"add i64 {a}, {b}")

    def _moved(self, pointer: str, count: str, size: str | int) -> str:
        return self.fn.let(f"getelementptr i8, ptr {pointer}, i64 {self.fn.let(f'mul i64 {count}, {size}')}")

    def _block(self, low: str, high: str) -> None:
        """Rows low … high of X."""
        fn, width = self.fn, self.width
        first, after = self._moved(self.x, low, self.pitch), self._moved(self.x, high, self.pitch)
        rows = _Rows(first, after, fn.let(f"sub i64 {high}, {low}"))

        def panel(left: str) -> None:
            starts = [self._plus(left, v * self.lanes) for v in range(self.vectors)]
            masks = [within(fn, c, self.columns, self.lanes) if self.masked else None for c in starts]
            top, done = left, 0
            for vectors in range(1, self.vectors + 1):  # of the first rows, all but the first are above the diagonal
                reached = vectors * self.lanes // self.highs[0] * self.highs[0]
                if vectors == self.vectors:
                    top = self._down(rows, _Panel(left, masks), top, self.columns)
                elif reached > done:
                    bottom = minimum(fn, self._plus(left, reached), self.columns)
                    top, done = self._down(rows, _Panel(left, masks[:vectors]), top, bottom), reached

        if self.masked:
            each(fn, "0", self.columns, str(width), panel)
            return
        whole = fn.let(f"and i64 {self.columns}, {-width}")
        each(fn, "0", whole, str(width), panel)
        left = self._plus(self.columns, -width)
        self._down(rows, _Panel(left, [None] * self.vectors, whole), whole, self.columns)

    def _down(self, rows: _Rows, panel: _Panel, top: str, bottom: str) -> str:
        """Rows top … bottom of the result, in tiles of some rows; returns bottom."""
        fn = self.fn
        for high in self.highs:
            rest = fn.let(f"sub i64 {bottom}, {top}")
            end = self._plus(top, fn.let(f"and i64 {rest}, {-high}"))
            each(fn, top, end, str(high), partial(self._tile, rows, panel, high))
            top = end
        return top

    def _tile(self, rows: _Rows, panel: _Panel, high: int, top: str) -> None:
        """Some rows of the result by a panel; steps also fetch lines of what comes next."""
        fn, size, lanes = self.fn, self.size, self.lanes
        cells = [(i, v) for i in range(high) for v in range(len(panel.masks))]
        across, down = self._moved(rows.first, panel.left, size), self._moved(rows.first, top, size)
        lines = fn.let(f"mul i64 {fn.let(f'udiv i64 {top}, {self.highs[0]}')}, {rows.count}")
        pace = LINE_BYTES // FETCHED if self.by_lane else LINE_BYTES
        fetched = self._moved(rows.after, lines, pace)

        def step(s: str, state: list[Val]) -> list[Val]:
            lane, one = self._moved(across, s, self.pitch), self._moved(down, s, self.pitch)
            vectors = [load(fn, self._at(lane, v * lanes), self.dtype, lanes, m) for v, m in enumerate(panel.masks)]
            points = self._points(one, high)
            return [fma(points[i], vectors[v], acc) for (i, v), acc in zip(cells, state, strict=True)]

        def turn(count: int, s: str, state: list[Val]) -> list[Val]:
            for j in range(count):
                here = self._plus(s, j) if j else s
                if j % FETCHED == 0:
                    fetch(fn, self._moved(fetched, here, pace), L2)
                state = step(here, state)
            return state

        zero = Val(fn, "", IR_TYPE[self.dtype], lanes).const(0.0)
        found = [zero] * len(cells)
        start = "0"
        if self.by_lane:
            start = fn.let(f"and i64 {rows.count}, {-UNROLLED}")
            found = loop(fn, "0", start, str(UNROLLED), partial(turn, UNROLLED), found)
        found = loop(fn, start, rows.count, "1", partial(turn, 1), found)
        pitch = fn.let(f"mul i64 {self.columns}, {size}")
        for i in range(high):
            values = [value for (row, _), value in zip(cells, found, strict=True) if row == i]
            row = self._moved(self.sums, self._plus(top, i), pitch)
            self._add(self._moved(row, panel.left, size), values, panel)

    def _points(self, at: str, count: int) -> list[Val]:
        """Elements of a row, each in all lanes."""
        fn, lanes = self.fn, self.lanes
        if not self.by_lane or count % lanes:
            return [load(fn, self._at(at, i), self.dtype, 1).splat(lanes) for i in range(count)]
        several = [load(fn, self._at(at, i), self.dtype, lanes) for i in range(0, count, lanes)]
        return [some.shuffle(i, 1).splat(lanes) for some in several for i in range(lanes)]

    def _add(self, at: str, values: list[Val], panel: _Panel) -> None:
        """Add to a panel's columns of a row."""
        fn, kind = self.fn, IR_TYPE[self.dtype]
        if panel.fresh is None:
            for v, (value, mask) in enumerate(zip(values, panel.masks, strict=True)):
                place = self._at(at, v * self.lanes)
                store(fn, place, load(fn, place, self.dtype, self.lanes, mask) + value, self.dtype, mask)
            return
        for v, value in enumerate(values):
            store(fn, self._at(self._kept, v * self.lanes), value, self.dtype)

        def one(column: str) -> None:
            place, kept = (fn.let(f"getelementptr {kind}, ptr {base}, i64 {column}") for base in (at, self._kept))
            store(fn, place, load(fn, place, self.dtype, 1) + load(fn, kept, self.dtype, 1), self.dtype)

        each(fn, fn.let(f"sub i64 {panel.fresh}, {panel.left}"), str(self.width), "1", one)

    @cached_property
    def _kept(self) -> str:
        """Room for a row of a panel."""
        return self.fn.hoist(f"alloca {IR_TYPE[self.dtype]}, i64 {self.width}, align 64")

    def _at(self, pointer: str, elements: int) -> str:
        return self.fn.let(f"getelementptr i8, ptr {pointer}, i64 {elements * self.size}")


@dataclass(frozen=True)
class _Rows:
    """A block of rows of X: where it begins and ends, and how many they are."""

    first: str
    after: str
    count: str


@dataclass(frozen=True)
class _Panel:
    """Columns of the result: the first, a mask per vector, and the first that no panel before had (None: all)."""

    left: str
    masks: list[Val | None]
    fresh: str | None = None
