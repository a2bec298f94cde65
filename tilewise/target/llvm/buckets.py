"""The `buckets` form: every point is added to the accumulator that its key names. geom adds: points of a chunk along
the chunked dim, first chunk, chunk after the last; then per bucket output the buckets, the bytes from bucket to bucket,
the elements of all accumulators of a chunk.

A chunk has accumulators of its own, with one bucket more than the output, where keys outside of the range go. The
chunked dim is the first, or the innermost.
"""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from tilewise.target.llvm.control import each, minimum
from tilewise.target.llvm.frame import MAX_LANES, UNIT, Frame, load, memory_type, store
from tilewise.target.llvm.reducers import Reducer
from tilewise.target.llvm.text import Val
from tilewise.target.llvm.walk import UNROLL, row, store_plain, whole

FILL_BYTES = 64  # stored at once
PLAIN_BODY = 2  # instructions; longer bodies are worth computing in vectors, a block of points at a time
BLOCK = 256  # points; a load soon after a wider store of the same memory waits for it


def emit(frame: Frame) -> None:
    """for chunk: for dims: for column: accumulate."""
    fn, last = frame.fn, frame.spec.rank - 1
    length = frame.extra(0)
    outputs = [j for j, o in enumerate(frame.kernel.outputs) if o.key is not None]
    targets = [_Target(frame, j, 3 + 3 * i) for i, j in enumerate(outputs)]

    def chunk(c: str) -> None:
        low = fn.let(f"mul i64 {c}, {length}")
        high = minimum(fn, fn.let(f"add i64 {low}, {length}"), frame.sizes[frame.spec.chunked])
        pointers = list(frame.bases)
        for target in targets:
            pointers[target.operand] = target.fill(c)
        level(0, pointers, low, high)

    def level(d: int, pointers: list[str], low: str, high: str) -> None:
        start, stop = (low, high) if d == frame.spec.chunked else ("0", frame.sizes[d])
        if d == last:
            columns(pointers, start, stop)
        else:
            each(fn, start, stop, "1", lambda i: level(d + 1, frame.row_pointers(pointers, d, i), low, high))

    def columns(pointers: list[str], start: str, stop: str) -> None:
        fixed = frame.uniform(pointers)
        places = {t.operand: t.bucket(pointers, fixed) for t in targets if t.by_row}
        scattered = [t for t in targets if not t.by_row]

        def point(column: str, lanes: int, mask: Val | None, block: str) -> None:
            values = frame.values(pointers, column, fixed, lanes, mask)
            store_plain(frame, values, pointers, column, mask)
            for target in targets:
                if target.by_row:
                    target.add_row(places[target.operand], values, column, mask)
                elif block:
                    target.keep(values, column, fn.let(f"sub i64 {column}, {block}"))
                else:
                    target.add(pointers, *target.item(values, column))

        def four(column: str, _: int, mask: Val | None) -> None:
            for i in range(UNROLL):
                point(fn.let(f"add i64 {column}, {i}"), 1, mask, "")

        def block(begin: str) -> None:
            end = minimum(fn, fn.let(f"add i64 {begin}, {BLOCK}"), stop)
            row(frame, begin, end, lambda c, lanes, m: point(c, lanes, m, begin), wide=0)
            for target in scattered:
                each(fn, "0", fn.let(f"sub i64 {end}, {begin}"), "1", partial(target.add_kept, pointers))

        if not scattered:
            row(frame, start, stop, lambda c, lanes, m: point(c, lanes, m, ""), wide=UNROLL * frame.lanes)
        elif sum(not i.fn.startswith("const:") for i in frame.kernel.body) <= PLAIN_BODY:
            middle = whole(fn, start, stop, UNROLL, four)
            each(fn, middle, stop, "1", lambda c: point(c, 1, None, ""))
        else:
            each(fn, start, stop, str(BLOCK), block)

    each(fn, frame.extra(1), frame.extra(2), "1", chunk)


class _Target:
    """One bucket output."""

    def __init__(self, frame: Frame, j: int, word: int) -> None:
        self.frame, self.output = frame, frame.kernel.outputs[j]
        assert self.output.key is not None and self.output.reduce is not None
        self.key, self.operand = self.output.key, frame.n_inputs + j
        self.dtype = frame.dtypes[self.operand]
        self.reducer = Reducer(self.output.reduce, self.dtype)
        self.buckets, self.step, self.elements = (frame.extra(word + i) for i in range(3))
        # One bucket for a whole row of columns.
        self.by_row = frame.is_uniform(self.key) and frame.spec.classes[self.operand] == UNIT

    def fill(self, chunk: str) -> str:
        """Set the accumulators of a chunk to nothing; returns where they are."""
        fn, size = self.frame.fn, np.dtype(self.dtype).itemsize
        offset = fn.let(f"mul i64 {chunk}, {self.elements}")
        base = fn.let(f"getelementptr {memory_type(self.dtype)}, ptr {self.frame.bases[self.operand]}, i64 {offset}")

        def put(lanes: int, i: str) -> None:
            at = fn.let(f"getelementptr {memory_type(self.dtype)}, ptr {base}, i64 {i}")
            store(fn, at, self.reducer.start(fn, lanes)[0], self.dtype)

        wide = FILL_BYTES // size
        middle = fn.let(f"and i64 {self.elements}, {-wide}")
        each(fn, "0", middle, str(wide), partial(put, wide))
        each(fn, middle, self.elements, "1", partial(put, 1))
        return base

    def _inside(self, key: Val) -> Val:
        """The bucket of a key: its own, or the one after the last."""
        limit = Val(key.fn, self.buckets, "i64", 1)
        return key.intrinsic("umin", self.frame.hoisted(f"buckets{self.operand}", limit, key.lanes))

    def bucket(self, pointers: list[str], fixed: dict[int, Val]) -> str:
        """Where the bucket of a whole row is."""
        fn = self.frame.fn
        key = self._inside(fixed[self.key] if self.key in fixed else self.frame.constant(self.key, 1))
        offset = fn.let(f"mul i64 {key.name}, {self.step}")
        return fn.let(f"getelementptr i8, ptr {pointers[self.operand]}, i64 {offset}")

    def add_row(self, place: str, values: list[Val], column: str, mask: Val | None) -> None:
        """Add lanes to a bucket's columns."""
        frame, k = self.frame, self.operand
        value = values[self.output.value]
        at = frame.address(k, [place] * (k + 1), column)
        before = frame.read(k, at, value.lanes, mask)
        frame.write(k, at, self.reducer.merge([before], [value])[0], mask)

    def item(self, values: list[Val], column: str) -> tuple[Val, Val]:
        """Where lanes go (as byte offsets) and what they add."""
        frame, fn = self.frame, self.frame.fn
        value, key = values[self.output.value], self._inside(values[self.key])
        offset = key * frame.hoisted(f"step{self.operand}", Val(fn, self.step, "i64", 1), key.lanes)
        start = Val(fn, fn.let(f"mul i64 {column}, {frame.strides[self.operand][-1]}"), "i64", 1)
        offset = offset + start.splat(key.lanes)
        if key.lanes > 1:
            offset = offset + frame.lane_offsets(self.operand, key.lanes)
        return offset, value

    def keep(self, values: list[Val], column: str, index: str) -> None:
        """Remember lanes of a block, to be added later."""
        for value, room, dtype in zip(self.item(values, column), self._rooms, ("int64", self.dtype), strict=True):
            at = self.frame.fn.let(f"getelementptr {memory_type(dtype)}, ptr {room}, i64 {index}")
            store(self.frame.fn, at, value, dtype)

    def add_kept(self, pointers: list[str], index: str) -> None:
        """Add a point of a block."""
        fn, found = self.frame.fn, []
        for room, dtype in zip(self._rooms, ("int64", self.dtype), strict=True):
            at = fn.let(f"getelementptr {memory_type(dtype)}, ptr {room}, i64 {index}")
            found.append(load(fn, at, dtype, 1))
        self.add(pointers, *found)

    def add(self, pointers: list[str], offset: Val, value: Val) -> None:
        """Add one point to a bucket."""
        fn = self.frame.fn
        at = fn.let(f"getelementptr i8, ptr {pointers[self.operand]}, i64 {offset.name}")
        before = load(fn, at, self.dtype, 1)
        store(fn, at, self.reducer.merge([before], [value])[0], self.dtype)

    @cached_property
    def _rooms(self) -> tuple[str, str]:
        """Memory for the offsets and the values of a block (the last vector may reach over its end)."""
        hoist, size = self.frame.fn.hoist, BLOCK + MAX_LANES
        return (
            hoist(f"alloca i64, i64 {size}, align 64"),
            hoist(f"alloca {memory_type(self.dtype)}, i64 {size}, align 64"),
        )
