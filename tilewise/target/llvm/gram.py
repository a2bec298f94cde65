"""X.T @ X on tiles of tall matrices. In: rows that move from tile to tile, sums. Out: a call that adds to the sums.

The result is symmetric: for a panel of columns only the rows from its first column on are computed (whoever adds up the
sums mirrors the rest). Some rows of the result by a panel stay in registers while a block of rows of X, which stays in
the L1 cache, goes by; the next block is fetched meanwhile. Within a block products are added one after the other, as
BLAS does. Words of the geometry: the offsets of both operands, the rows and columns of X, bytes from row to row, rows
of a block.
"""

from __future__ import annotations

import struct
from functools import cache, partial

import numpy as np

from tilewise.target.llvm.build import Native, native
from tilewise.target.llvm.control import each, loop, minimum, within
from tilewise.target.llvm.cpu import host_machine
from tilewise.target.llvm.fetching import L2, LINE_BYTES, fetch
from tilewise.target.llvm.frame import DATA_OFFSET
from tilewise.target.llvm.memory import load, store
from tilewise.target.llvm.scalar import IR_TYPE
from tilewise.target.llvm.text import Function, Val, fma
from tilewise.target.llvm.tiles import Call, Ref

VECTORS = 2  # of a panel
HIGHS = (8, 2, 1)  # rows of the result in a register tile: as many as fit, then what is left
MOST_COLUMNS = 256  # beyond, BLAS is at its rate
BLOCK_BYTES = 24 << 10  # of the rows of X that go by
LEAST_BLOCK, MOST_BLOCK = 16, 128  # rows of it


def gram(x: Ref, sums: Ref) -> Call | None:
    """The call for sums += x.T @ x (but for what mirrors the rest); None if x does not lie by rows, or is wide."""
    dtype, (rows, columns) = x.array.dtype.name, x.array.shape
    (pitch, step), size = x.array.strides, x.array.itemsize
    if not host_machine().masked or dtype not in ("float64", "float32") or columns > MOST_COLUMNS:
        return None
    if (columns > 1 and step != size) or not sums.array.flags.c_contiguous:
        return None
    block = min(max(BLOCK_BYTES // (size * columns), LEAST_BLOCK), MOST_BLOCK)
    return Call(_code(dtype), (x, sums), (), struct.pack("<6q", 0, 0, rows, columns, pitch, block))


@cache
def _code(dtype: str) -> Native:
    return native(("gram", dtype), lambda name: _Gram(name, dtype).fn)


class _Gram:
    """The function of a dtype."""

    def __init__(self, name: str, dtype: str) -> None:
        self.fn = Function(name, "ptr noalias %objs, ptr noalias %geom")
        self.dtype, self.size = dtype, np.dtype(dtype).itemsize
        self.lanes = host_machine().vector_bytes // self.size
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
        fn = self.fn
        first, after = self._moved(self.x, low, self.pitch), self._moved(self.x, high, self.pitch)
        count = fn.let(f"sub i64 {high}, {low}")

        def panel(left: str) -> None:
            masks = [within(fn, self._plus(left, v * self.lanes), self.columns, self.lanes) for v in range(VECTORS)]

            def tile(rows: int, vectors: int, top: str) -> None:
                fetched = fn.let(f"mul i64 {fn.let(f'udiv i64 {top}, {HIGHS[0]}')}, {count}")
                self._tile(first, count, left, masks[:vectors], top, rows, self._moved(after, fetched, LINE_BYTES))

            top = left
            for vectors in range(1, VECTORS + 1):  # of its first rows, all but the first vector is above the diagonal
                bottom = self.columns
                if vectors < VECTORS:
                    bottom = minimum(fn, self._plus(left, vectors * self.lanes), bottom)
                for rows in HIGHS:
                    rest = fn.let(f"sub i64 {bottom}, {top}")
                    end = self._plus(top, fn.let(f"and i64 {rest}, {-rows}"))
                    each(fn, top, end, str(rows), partial(tile, rows, vectors))
                    top = end

        each(fn, "0", self.columns, str(VECTORS * self.lanes), panel)

    def _tile(self, first: str, count: str, left: str, masks: list[Val], top: str, rows: int, fetched: str) -> None:
        """Some rows of the result by a panel; each step also fetches a line of what comes next."""
        fn, size, lanes = self.fn, self.size, self.lanes
        cells = [(i, v) for i in range(rows) for v in range(len(masks))]
        across, down = self._moved(first, left, size), self._moved(first, top, size)

        def step(s: str, state: list[Val]) -> list[Val]:
            fetch(fn, self._moved(fetched, s, LINE_BYTES), L2)
            lane, one = self._moved(across, s, self.pitch), self._moved(down, s, self.pitch)
            vectors = [load(fn, self._at(lane, v * lanes), self.dtype, lanes, m) for v, m in enumerate(masks)]
            points = [load(fn, self._at(one, i), self.dtype, 1).splat(lanes) for i in range(rows)]
            return [fma(points[i], vectors[v], acc) for (i, v), acc in zip(cells, state, strict=True)]

        zero = Val(fn, "", IR_TYPE[self.dtype], lanes).const(0.0)
        found = loop(fn, "0", count, "1", step, [zero] * len(cells))
        pitch = fn.let(f"mul i64 {self.columns}, {size}")
        for (i, v), value in zip(cells, found, strict=True):
            row = self._moved(self.sums, self._plus(top, i), pitch)
            at = self._at(self._moved(row, left, size), v * lanes)
            store(fn, at, load(fn, at, self.dtype, lanes, masks[v]) + value, self.dtype, masks[v])

    def _at(self, pointer: str, elements: int) -> str:
        return self.fn.let(f"getelementptr i8, ptr {pointer}, i64 {elements * self.size}")
