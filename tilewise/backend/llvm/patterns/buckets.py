"""The `buckets` form: every point is added to the accumulator that its key names. geom adds: points of a chunk along
the chunked dim, first chunk, chunk after the last; then per bucket output the buckets, the bytes from bucket to bucket,
the elements of all accumulators of a chunk, the bytes from table to table.

A chunk has accumulators of its own, with one bucket more than the output, where keys outside of the range go. If they
are few, there are several tables of them: neighbours with equal keys then do not wait for each other. The chunked dim
is the first, or the innermost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from tilewise.backend.llvm.emit.control import each, minimum, when
from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.memory import load, memory_type, store
from tilewise.backend.llvm.emit.spec import UNIT
from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.loops.reducers import Reducer
from tilewise.backend.llvm.loops.walk import UNROLL, row, store_plain, whole

FILL_BYTES = 64  # stored at once
PLAIN_BODY = 2  # instructions; longer bodies are worth computing in vectors, ahead of the points that are added
AHEAD = 128  # points; a load soon after a wider store of the same memory waits for it
RING = 2 * AHEAD


def emit(frame: Frame) -> None:
    """for chunk: for dims: for column: accumulate."""
    fn, last = frame.fn, frame.spec.rank - 1
    length = frame.extra(0)
    outputs = [j for j, o in enumerate(frame.kernel.outputs) if o.key is not None]
    targets = [_Target(frame, j, 3 + 4 * i) for i, j in enumerate(outputs)]

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
        rows = {t.operand: t.bucket(pointers, fixed) for t in targets if t.by_row}
        scattered = [t for t in targets if not t.by_row]

        tables = {t.operand: t.tables(pointers[t.operand]) for t in scattered}

        def point(column: str, lanes: int, mask: Val | None, slot: str, turn: int = 0) -> None:
            values = frame.values(pointers, column, fixed, lanes, mask)
            store_plain(frame, values, pointers, column, mask)
            for target in targets:
                if target.by_row:
                    target.add_row(rows[target.operand], values, column, mask)
                elif slot:
                    target.keep(values, column, slot)
                else:
                    target.add(tables[target.operand][turn], *target.item(values, column))

        def four(column: str, _: int, mask: Val | None) -> None:
            for i in range(UNROLL):
                point(fn.let(f"add i64 {column}, {i}"), 1, mask, "", i)

        if not scattered:
            row(frame, start, stop, lambda c, lanes, m: point(c, lanes, m, ""), wide=UNROLL * frame.lanes)
        elif sum(not i.fn.startswith("const:") for i in frame.kernel.body) <= PLAIN_BODY:
            middle = whole(fn, start, stop, UNROLL, four)
            each(fn, middle, stop, "1", lambda c: point(c, 1, None, ""))
        else:
            _Ahead(frame, [(t, tables[t.operand]) for t in scattered], fixed, (start, stop), point).emit()

    each(fn, frame.extra(1), frame.extra(2), "1", chunk)


class _Ahead:
    """Points of a row, computed in vectors some time before they are added, both in the same loop."""

    def __init__(
        self,
        frame: Frame,
        targets: list[tuple[_Target, list[str]]],
        fixed: dict[int, Val],
        bounds: tuple[str, str],
        point: Callable[[str, int, Val | None, str], None],
    ) -> None:
        self.frame, self.fn, self.targets, self.fixed, self.point = frame, frame.fn, targets, fixed, point
        self.start, self.stop = bounds
        machine = frame.spec.machine
        # Chains of operations are long, and hidden by others.
        several = 4 if machine.registers >= 32 and not machine.masked else 2
        self.wide = several * frame.lanes if frame.light else frame.lanes
        self.step = max(self.wide, UNROLL)
        assert self.step <= AHEAD, "points that are computed and not added must fit in the ring"

    def emit(self) -> None:
        """for each iteration: compute a step, add a step from before; then what is left."""
        fn, step = self.fn, self.step
        count = fn.let(f"sub i64 {self.stop}, {self.start}")
        done, fours = (fn.let(f"and i64 {count}, {-n}") for n in (step, UNROLL))
        each(fn, "0", done, str(step), self._turn)
        row(self.frame, fn.let(f"add i64 {self.start}, {done}"), self.stop, self._keep, wide=self.frame.lanes)
        each(fn, self._before(done), fours, str(UNROLL), self._add_four)
        each(fn, fours, count, "1", self._add_one)

    def _turn(self, index: str) -> None:
        fn = self.fn
        for i in range(0, self.step, self.wide):
            at = fn.let(f"add i64 {index}, {i}")
            self.point(fn.let(f"add i64 {self.start}, {at}"), self.wide, None, self._ring(at))
        before = fn.let(f"sub i64 {index}, {AHEAD}")
        with when(fn, fn.let(f"icmp sge i64 {before}, 0")):
            for i in range(0, self.step, UNROLL):
                self._add_four(fn.let(f"add i64 {before}, {i}"))

    def _before(self, index: str) -> str:
        """The first point that is not added when one is computed."""
        self.fn.declares.add("declare i64 @llvm.smax.i64(i64, i64)")
        return self.fn.let(f"call i64 @llvm.smax.i64(i64 {self.fn.let(f'sub i64 {index}, {AHEAD}')}, i64 0)")

    def _ring(self, index: str) -> str:
        return self.fn.let(f"and i64 {index}, {RING - 1}")

    def _keep(self, column: str, lanes: int, mask: Val | None) -> None:
        self.point(column, lanes, mask, self._ring(self.fn.let(f"sub i64 {column}, {self.start}")))

    def _add_four(self, index: str) -> None:
        for target, tables in self.targets:
            target.add_some(tables, self.fixed, self._ring(index))

    def _add_one(self, index: str) -> None:
        for target, tables in self.targets:
            target.add_kept(tables[0], self.fixed, self._ring(index))


class _Target:
    """One bucket output."""

    def __init__(self, frame: Frame, j: int, word: int) -> None:
        self.frame, self.output = frame, frame.kernel.outputs[j]
        assert self.output.key is not None and self.output.reduce is not None
        self.key, self.operand = self.output.key, frame.n_inputs + j
        self.dtype = frame.dtypes[self.operand]
        self.reducer = Reducer(self.output.reduce, self.dtype)
        self.buckets, self.step, self.elements, self.apart = (frame.extra(word + i) for i in range(4))
        # One bucket for a whole row of columns.
        self.by_row = frame.is_uniform(self.key) and frame.spec.classes[self.operand] == UNIT
        self.flat = all(frame.kernel.reduced)  # a bucket is one element
        self.same = frame.is_uniform(self.output.value)  # what is added is the same for a whole row
        self.narrow = self._narrow() if self.flat and not self.by_row else None

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

    def _narrow(self) -> int | None:
        """The numbers of 32 bits that keys are cast from, of which a vector holds twice as many; None without such."""
        frame, key = self.frame, self.key
        if key < frame.n_inputs or frame.is_constant(key) or frame.instr(key).fn != "cast":
            return None
        (found,) = frame.instr(key).args
        return found if frame.kernel.dtypes[found] == "uint32" else None

    def _inside(self, key: Val) -> Val:
        """The bucket of a key: its own, or the one after the last."""
        limit = Val(key.fn, self.buckets, "i64", 1)
        if key.ty == "i32":
            with key.fn.in_entry():
                limit = limit.intrinsic("umin", (1 << 32) - 1).convert("trunc", "i32")
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
        """Where lanes go (as byte offsets; as numbers of elements if flat) and what they add."""
        frame, fn = self.frame, self.frame.fn
        key = self._inside(values[self.key if self.narrow is None else self.narrow])
        value = values[self.output.value]
        if self.flat:
            return key, value
        offset = key * frame.hoisted(f"step{self.operand}", Val(fn, self.step, "i64", 1), key.lanes)
        start = Val(fn, fn.let(f"mul i64 {column}, {frame.strides[self.operand][-1]}"), "i64", 1)
        offset = offset + start.splat(key.lanes)
        if key.lanes > 1:
            offset = offset + frame.lane_offsets(self.operand, key.lanes)
        return offset, value

    def keep(self, values: list[Val], column: str, index: str) -> None:
        """Remember lanes, to be added later."""
        for value, (room, dtype) in zip(self.item(values, column), self._rooms, strict=False):
            at = self.frame.fn.let(f"getelementptr {memory_type(dtype)}, ptr {room}, i64 {index}")
            store(self.frame.fn, at, value, dtype)

    def tables(self, first: str) -> list[str]:
        """Where the points of an iteration find their buckets."""
        fn, found = self.frame.fn, [first]
        for _ in range(UNROLL - 1):
            found.append(fn.let(f"getelementptr i8, ptr {found[-1]}, i64 {self.apart}"))
        return found

    def add_kept(self, table: str, fixed: dict[int, Val], index: str) -> None:
        """Add a point that was remembered."""
        fn, found = self.frame.fn, []
        for room, dtype in self._rooms:
            at = fn.let(f"getelementptr {memory_type(dtype)}, ptr {room}, i64 {index}")
            found.append(load(fn, at, dtype, 1))
        if self.same:
            value = self.output.value
            found.append(fixed[value] if value in fixed else self.frame.constant(value, 1))
        self.add(table, *found)

    def add_some(self, tables: list[str], fixed: dict[int, Val], first: str) -> None:
        """Add points that follow each other."""
        for i, table in enumerate(tables):
            self.add_kept(table, fixed, self.frame.fn.let(f"add i64 {first}, {i}"))

    def add(self, table: str, offset: Val, value: Val) -> None:
        """Add one point to a bucket."""
        fn, unit = self.frame.fn, memory_type(self.dtype) if self.flat else "i8"
        wide = offset if offset.ty == "i64" else offset.convert("zext", "i64")
        at = fn.let(f"getelementptr {unit}, ptr {table}, i64 {wide.name}")
        before = load(fn, at, self.dtype, 1)
        store(fn, at, self.reducer.merge([before], [value])[0], self.dtype)

    @cached_property
    def _rooms(self) -> list[tuple[str, str]]:
        """Memory for where points go and, where they differ, for what they add; with the dtypes."""
        place = "int64" if self.narrow is None else "uint32"
        dtypes = [place] if self.same else [place, self.dtype]
        return [(self.frame.fn.hoist(f"alloca {memory_type(t)}, i64 {RING}, align 64"), t) for t in dtypes]
