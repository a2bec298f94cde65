"""Positions by scores in float32, where these are certain. In: a frame of the `nested` form. Out: positions, or -1.

Products of float32 are twice as many in a vector. A row's scores are sums of products of its elements (less those of
the first lane, where differences are squared) with a table of the lanes (argmin_table.py); sums start from the lanes'
own terms. Of the scores, the least two are kept; the last bits of each say which vector it is from. Where these are
further apart than rounding could have moved them, in float32 and in float64, the position is that of the float64
scores, too; else it is -1, and whoever asked computes them.

With n steps, u = 2**-24, |x| the length of a row, |c| of a lane of the table and b what its sum starts from, a score is
off by less than (n + 4) u (|x||c| + |b|), for elements rounded to float32 and a sum of n + 1 terms, and by 2 m u times
as much, for last bits up to m. That of float64 is off by less than (n + 32) 2**-53 times the sizes of all its terms.
`BOUND` and `FINE` have these four times, for two scores and what rounds in the bounds themselves; `TINY` is for what
vanishes. What overflows, and a NaN, is not certain.
"""

from __future__ import annotations

from tilewise.backend.llvm.emit.control import each, loop, when, word
from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.memory import load, store
from tilewise.backend.llvm.emit.spec import VectorUnit
from tilewise.backend.llvm.emit.text import Val, fma, iota
from tilewise.backend.llvm.loops.sums import Stack, State
from tilewise.backend.llvm.patterns.argmin_pattern import score
from tilewise.backend.llvm.patterns.argmin_table import F32, STEP, TINY, Table, value_at
from tilewise.tuning import tuned

LEAST_ROWS = 32  # that are worth a table
SPARED = 8  # of so many rows one may be uncertain, before guessing stops
BOUND, FINE = 2.0**-22, 2.0**-51
ROW = 0  # a dim


def tile(across: int, machine: VectorUnit) -> tuple[int, int]:
    """Vectors of a panel and rows of a tile."""
    lanes = machine.vector_bytes // 4
    held = (2 if machine.by_lane else 3) * machine.registers // 4
    vectors = min(-(-across // lanes), 4 if machine.registers == 32 else 2)
    return vectors, min(8, held // vectors)


def pays(steps: int, across: int, machine: VectorUnit, work_ns: float) -> bool:
    """Whether there is work enough, lanes have a table, and vectors of float32 are twice as fast."""
    lanes = machine.vector_bytes // 4
    width = lanes * tile(across, machine)[0] if lanes > 1 else 1
    table = 4 * (steps + 1) * -(-across // width) * width
    enough = across >= tuned().argmin_least_lanes and work_ns >= tuned().argmin_least_ns
    return enough and machine.fuses and lanes > 1 and table <= tuned().argmin_table_bytes


class Guess:
    """The code of one function."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.fn = frame, frame.fn
        found = score(frame.kernel, frame.spec.varies, frame.spec.classes)
        assert found is not None and frame.spec.guess is not None, "whoever asks for guesses sees that there is a score"
        self.score = found
        self.vectors, self.high = frame.spec.guess
        self.table = Table(frame, found, self.vectors, 4 * self.high)
        self.lanes = self.table.lanes
        fn, steps = self.fn, frame.sizes[STEP]
        self.rows = self.table.rest  # those of a tile, in float32
        self.whole = fn.hoist(f"and i64 {steps}, {-self.lanes}")  # steps
        self.missed = fn.hoist("alloca i64, align 8")  # rows
        count = fn.hoist(f"uitofp i64 {steps} to float")
        with fn.in_entry():
            n = Val(fn, count, "float", 1)
            self.bits = self._bits()
            m = self.bits.convert("uitofp", "float")
            self.bound, self.fine = (n + m * 2 + 8) * BOUND, (n + 32) * FINE
        self.states = Stack(fn, [F32, F32], self.lanes, self.high)

    def emit(self) -> None:
        """Store a position for every row."""
        fn, rows = self.fn, self.frame.sizes[ROW]
        whole = fn.let(f"sub i64 {rows}, {fn.let(f'urem i64 {rows}, {self.high}')}")
        worth = fn.let(f"and i1 {self.table.there}, {fn.let(f'icmp sge i64 {rows}, {LEAST_ROWS}')}")
        stop = fn.let(f"select i1 {worth}, i64 {whole}, i64 0")
        spared = fn.let(f"udiv i64 {rows}, {SPARED}")
        fn.do(f"store i64 0, ptr {self.missed}, align 8")
        with when(fn, worth):
            self.table.fill()

        def rows_from(first: str) -> None:
            last = fn.let(f"add i64 {first}, {self.high}")
            each(fn, first, last, "1", self._uncertain)
            with when(fn, fn.let(f"icmp sle i64 {word(fn, self.missed, 0)}, {spared}")):
                self._tile(first)

        each(fn, "0", stop, str(self.high), rows_from)
        each(fn, stop, rows, "1", self._uncertain)
        self.table.leave()

    def _bits(self) -> Val:
        """The last bits, as many as numbers of vectors have."""
        fn = self.fn
        last = fn.let(f"sub i64 {fn.let(f'mul i64 {self.table.panels}, {self.vectors}')}, 1")
        fn.declares.add("declare i64 @llvm.ctlz.i64(i64, i1)")
        free = fn.let(f"call i64 @llvm.ctlz.i64(i64 {fn.let(f'or i64 {last}, 1')}, i1 false)")
        return Val(fn, fn.let(f"trunc i64 {fn.let(f'lshr i64 -1, {free}')} to i32"), "i32", 1)

    def is_uncertain(self, first: str, count: int) -> str:
        """Whether one of some rows has no position."""
        at = [self._position(self.fn.let(f"add i64 {first}, {i}") if i else first) for i in range(count)]
        found = load(self.fn, at[0], "int64", 1)
        for place in at[1:]:
            found = found | load(self.fn, place, "int64", 1)
        return found.cmp("slt", 0).name

    def _uncertain(self, row: str) -> None:
        self.fn.do(f"store i64 -1, ptr {self._position(row)}, align 8")

    def _position(self, row: str) -> str:
        """Where the position of a row is stored."""
        k = self.frame.n_inputs
        offset = self.fn.let(f"mul i64 {row}, {self.frame.strides[k][ROW]}")
        return self.fn.let(f"getelementptr i8, ptr {self.frame.bases[k]}, i64 {offset}")

    def _tile(self, first: str) -> None:
        """The positions of a tile of rows."""
        frame, fn = self.frame, self.fn
        rows = [
            frame.row_pointers(frame.bases, ROW, fn.let(f"add i64 {first}, {i}") if i else first)
            for i in range(self.high)
        ]
        squares = self._rounded(rows)
        worst = Val(fn, "", "float", self.lanes).const(float("inf"))
        for i in range(self.high):
            self.states.store(str(i), [worst, worst])
        each(fn, "0", self.table.panels, "1", self._panel)
        for i, at in enumerate(rows):
            best, second, position = self._folded(*self.states.load(str(i)))
            sure = (second - best).cmp("ogt", self._margin(at, squares[i]))
            found = sure.select(position.convert("sext", "i64"), -1)
            store(fn, at[frame.n_inputs], found, "int64")
            one = fn.let(f"zext i1 {(~sure).name} to i64")
            fn.do(f"store i64 {fn.let(f'add i64 {word(fn, self.missed, 0)}, {one}')}, ptr {self.missed}, align 8")

    def _rounded(self, rows: list[list[str]]) -> list[Val]:
        """Put rows, less the pivot, into memory as float32; the sums of their squares."""
        fn, frame = self.fn, self.frame

        def some(s: str, lanes: int, state: State) -> State:
            after = []
            for i, at in enumerate(rows):
                place = fn.let(f"getelementptr double, ptr {at[self.score.row]}, i64 {s}")
                value = self.table.about_pivot(load(fn, place, "float64", lanes), s).convert("fptrunc", "float")
                store(fn, self._row_place(i, s), value, F32)
                after.append(fma(value, value, state[i]))
            return after

        none = Val(fn, "", "float", self.lanes).const(0.0)
        wide = loop(fn, "0", self.whole, str(self.lanes), lambda s, st: some(s, self.lanes, st), [none] * self.high)
        single = [_added(v) for v in wide]
        return loop(fn, self.whole, frame.sizes[STEP], "1", lambda s, st: some(s, 1, st), single)

    def _row_place(self, i: int, s: str) -> str:
        start = self.fn.hoist(f"mul i64 {self.frame.sizes[STEP]}, {i}")
        return self.fn.let(f"getelementptr float, ptr {self.rows}, i64 {self.fn.let(f'add i64 {start}, {s}')}")

    def _panel(self, p: str) -> None:
        """The scores of a tile of rows and a panel of lanes, and what they leave of the best."""
        fn = self.fn
        starts = self.table.line(p, "0")
        cells = [(i, v) for v in range(self.vectors) for i in range(self.high)]

        def steps(count: int, s: str, state: State) -> State:
            """Several steps, of rows read as vectors; or one."""
            rows = [load(fn, self._row_place(i, s), F32, count) for i in range(self.high)]
            for j in range(count):
                lanes = self.table.line(p, fn.let(f"add i64 {s}, {j + 1}"))
                one = [r.shuffle(j, 1).splat(self.lanes) if count > 1 else r.splat(self.lanes) for r in rows]
                state = [fma(one[i], lanes[v], acc) for (i, v), acc in zip(cells, state, strict=True)]
            return state

        scores, low = [starts[v] for _, v in cells], "0"
        if self.frame.spec.machine.by_lane:
            scores = loop(fn, "0", self.whole, str(self.lanes), lambda s, st: steps(self.lanes, s, st), scores)
            low = self.whole
        scores = loop(fn, low, self.frame.sizes[STEP], "1", lambda s, st: steps(1, s, st), scores)
        found = dict(zip(cells, scores, strict=True))
        first = Val(fn, fn.let(f"trunc i64 {fn.let(f'mul i64 {p}, {self.vectors}')} to i32"), "i32", 1)
        bits = self.bits.splat(self.lanes)
        numbers = [(first + v).splat(self.lanes) for v in range(self.vectors)]
        for i in range(self.high):
            best, second = self.states.load(str(i))
            for v, number in enumerate(numbers):
                value = found[i, v].bits()
                marked = ((value & ~bits) | (number & bits)).convert("bitcast", "float")
                second = self._lesser(second, self._greater(best, marked))
                best = self._lesser(best, marked)
            self.states.store(str(i), [best, second])

    def _folded(self, best: Val, second: Val) -> State:
        """The least score of all lanes, the second, and the position of the least."""
        number = best.bits() & self.bits.splat(self.lanes)
        lane = Val(self.fn, iota(self.lanes).replace("i64", "i32"), "i32", self.lanes)
        position = number * self.lanes + lane
        while best.lanes > 1:
            half = best.lanes // 2
            (a, a_second, at), (b, b_second, there) = (
                [v.shuffle(k, half) for v in (best, second, position)] for k in (0, half)
            )
            less = b.cmp("olt", a)
            second = self._lesser(self._lesser(a_second, b_second), self._greater(a, b))
            best, position = self._lesser(a, b), less.select(there, at)
        return [best, second, position]

    def _lesser(self, a: Val, b: Val) -> Val:
        if self.frame.spec.machine.by_lane:
            return a.intrinsic("minnum", b)
        return a.cmp("olt", b).select(a, b)

    def _greater(self, a: Val, b: Val) -> Val:
        if self.frame.spec.machine.by_lane:
            return a.intrinsic("maxnum", b)
        return a.cmp("ogt", b).select(a, b)

    def _margin(self, at: list[str], squares: Val) -> Val:
        """How far scores of a row must be apart to be certain."""
        length, start = (load(self.fn, place, F32, 1) for place in (self.table.length, self.table.start))
        size = squares * (abs(self.score.factor) if self.score.squared else 0.0)
        for v, times in self.score.rows:
            value = value_at(self.frame, v, at, "0") * times
            size = size + value.intrinsic("fabs").convert("fptrunc", "float")
        far = squares.intrinsic("sqrt") * 1.01 + TINY
        return fma(far, length, start) * self.bound + size * self.fine


def _added(value: Val) -> Val:
    """The sum of all lanes."""
    while value.lanes > 1:
        half = value.lanes // 2
        value = value.shuffle(0, half) + value.shuffle(half, half)
    return value
