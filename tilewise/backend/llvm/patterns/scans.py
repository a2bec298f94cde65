"""Running reductions. Two forms: the scanned dim is innermost (`scan`), or an inner dim is kept (`scan_columns`).

`scan` adds to geom: points of a chunk, first chunk, chunk after the last. A vector is scanned by shifting, then joined
with what came before; with `spec.partials`, what came before a chunk is in the array beside the output. Vectors have
the same number of lanes on every machine, so that sums round alike. `scan_columns` takes the row before from the output
itself; geom adds nothing.
"""

from __future__ import annotations

from tilewise.backend.llvm.emit.control import each, loop, minimum, within
from tilewise.backend.llvm.emit.frame import STREAM_ALIGN, Frame
from tilewise.backend.llvm.emit.memory import load, memory_type, store
from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.loops.reducers import first_value
from tilewise.backend.llvm.loops.walk import UNROLL, nest, row, store_plain
from tilewise.backend.llvm.math.scalar import IR_TYPE, RULES

COLUMN_TILE = 1024  # columns that go down all rows together: the row before is still in the L1 cache


class _Scanned:
    """One scanned output."""

    def __init__(self, frame: Frame, j: int, beside: int) -> None:
        self.frame, self.output = frame, frame.kernel.outputs[j]
        assert self.output.reduce is not None
        self.operand, self.beside, self.op = frame.n_inputs + j, beside, self.output.reduce
        self.dtype = frame.dtypes[self.operand]

    def join(self, before: Val, value: Val) -> Val:
        """The running reduction after a value."""
        return RULES[self.op](self.dtype, before, value)

    def nothing(self, lanes: int) -> Val:
        """What changes no value."""
        return Val(self.frame.fn, "", IR_TYPE[self.dtype], lanes).const(
            first_value(self.op, self.dtype, keep_sign=True)
        )

    def before(self, chunk: str) -> Val:
        """The reduction of everything before a chunk."""
        if not self.frame.spec.partials:
            return self.nothing(1)
        fn = self.frame.fn
        base = self.frame.bases[self.beside]
        at = fn.let(f"getelementptr {memory_type(self.dtype)}, ptr {base}, i64 {chunk}")
        return load(fn, at, self.dtype, 1)

    def lanes(self, value: Val, before: Val) -> tuple[Val, Val]:
        """The running reduction in every lane, and after the last."""
        gap = 1
        while gap < value.lanes:
            shifted = ", ".join(f"i32 {i - gap if i >= gap else value.lanes}" for i in range(value.lanes))
            nothing = self.nothing(value.lanes)
            moved = value.make(f"shufflevector {value.text}, {nothing.text}, <{value.lanes} x i32> <{shifted}>")
            value = self.join(moved, value)
            gap *= 2
        last = value.shuffle(value.lanes - 1, 1) if value.lanes > 1 else value
        return self.join(before.splat(value.lanes), value), self.join(before, last)


def _scanned(frame: Frame) -> list[_Scanned]:
    outputs = [j for j, o in enumerate(frame.kernel.outputs) if o.scan]
    first = frame.n_inputs + len(frame.kernel.outputs)
    return [_Scanned(frame, j, first + i) for i, j in enumerate(outputs)]


def emit(frame: Frame) -> None:
    """for outer: for chunk: for vector."""
    fn, lanes = frame.fn, frame.scan_lanes
    scans = _scanned(frame)
    length = frame.extra(0)
    rooms = [fn.hoist(f"alloca {memory_type(s.dtype)}, i64 {lanes}, align 64") for s in scans]

    def inside(pointers: list[str]) -> None:
        fixed = frame.uniform(pointers)

        def chunk(c: str) -> None:
            low = fn.let(f"mul i64 {c}, {length}")
            high = minimum(fn, fn.let(f"add i64 {low}, {length}"), frame.sizes[-1])
            whole = fn.let(f"and i64 {fn.let(f'sub i64 {high}, {low}')}, {-lanes}")
            middle = fn.let(f"add i64 {low}, {whole}")
            state = [s.before(c) for s in scans]
            if frame.spec.stream:
                end = aligned(low, middle)
                state = loop(fn, low, end, str(lanes), lambda i, s: vector(i, s, None, stream=True), state)
                low = end
            state = loop(fn, low, middle, str(lanes), lambda i, s: vector(i, s, None), state)
            if frame.masked:
                loop(fn, middle, high, str(lanes), lambda i, s: vector(i, s, within(fn, i, high, lanes)), state)
            else:
                rest(middle, high, state)

        def aligned(low: str, middle: str) -> str:
            """How far vectors can be stored past the caches: to the end, or not at all."""
            outs = range(frame.n_inputs, frame.n_inputs + len(frame.kernel.outputs))
            places = [fn.let(f"ptrtoint ptr {frame.address(k, pointers, low)} to i64") for k in outs]
            bits = places[0]
            for place in places[1:]:
                bits = fn.let(f"or i64 {bits}, {place}")
            off = fn.let(f"icmp ne i64 {fn.let(f'and i64 {bits}, {STREAM_ALIGN - 1}')}, 0")
            return fn.let(f"select i1 {off}, i64 {low}, i64 {middle}")

        def vector(column: str, state: list[Val], mask: Val | None, *, stream: bool = False) -> list[Val]:
            values = frame.values(pointers, column, fixed, lanes, mask)
            store_plain(frame, values, pointers, column, mask, stream=stream)
            after = []
            for scan, before in zip(scans, state, strict=True):
                running, last = scan.lanes(values[scan.output.value], before)
                at = frame.address(scan.operand, pointers, column)
                frame.write(scan.operand, at, running, mask, stream=stream)
                after.append(last)
            return after

        def rest(middle: str, high: str, state: list[Val]) -> None:
            """Less than a vector: gathered in memory, scanned as a vector."""

            def room(i: int, column: str) -> str:
                index = fn.let(f"sub i64 {column}, {middle}")
                return fn.let(f"getelementptr {memory_type(scans[i].dtype)}, ptr {rooms[i]}, i64 {index}")

            def collect(column: str) -> None:
                values = frame.values(pointers, column, fixed, 1, None)
                store_plain(frame, values, pointers, column, None)
                for i, scan in enumerate(scans):
                    store(fn, room(i, column), values[scan.output.value], scan.dtype)

            def spread(column: str) -> None:
                for i, scan in enumerate(scans):
                    value = load(fn, room(i, column), scan.dtype, 1)
                    frame.write(scan.operand, frame.address(scan.operand, pointers, column), value, None)

            for i, scan in enumerate(scans):
                store(fn, rooms[i], scan.nothing(lanes), scan.dtype)
            each(fn, middle, high, "1", collect)
            for i, (scan, before) in enumerate(zip(scans, state, strict=True)):
                running, _ = scan.lanes(load(fn, rooms[i], scan.dtype, lanes), before)
                store(fn, rooms[i], running, scan.dtype)
            each(fn, middle, high, "1", spread)

        each(fn, frame.extra(1), frame.extra(2), "1", chunk)

    nest(frame, frame.spec.rank - 1, inside)


def emit_columns(frame: Frame) -> None:
    """for outer: for tile of columns: for row: for column."""
    fn, scans = frame.fn, _scanned(frame)
    rows, columns = frame.sizes[-2], frame.sizes[-1]

    def inside(pointers: list[str]) -> None:
        def tile(left: str) -> None:
            right = minimum(fn, fn.let(f"add i64 {left}, {COLUMN_TILE}"), columns)
            each(fn, "0", rows, "1", lambda r: one_row(r, left, right))

        def one_row(r: str, left: str, right: str) -> None:
            at = frame.row_pointers(pointers, frame.spec.rank - 2, r)
            fresh = fn.let(f"icmp eq i64 {r}, 0")
            above = fn.let(f"select i1 {fresh}, i64 0, i64 -1")
            last = frame.row_pointers(at, frame.spec.rank - 2, above)  # of the first row: itself, and not used
            fixed = frame.uniform(at)

            def point(column: str, lanes: int, mask: Val | None) -> None:
                values = frame.values(at, column, fixed, lanes, mask)
                store_plain(frame, values, at, column, mask)
                for scan in scans:
                    k, value = scan.operand, values[scan.output.value]
                    before = frame.read(k, frame.address(k, last, column), lanes, mask)
                    both = scan.join(before, value)
                    chosen = value.make(f"select i1 {fresh}, {value.text}, {both.text}")
                    frame.write(k, frame.address(k, at, column), chosen, mask)

            row(frame, left, right, point, wide=UNROLL * frame.lanes)

        each(fn, "0", columns, str(COLUMN_TILE), tile)

    nest(frame, frame.spec.rank - 2, inside)
