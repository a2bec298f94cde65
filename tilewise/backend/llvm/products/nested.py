"""The `nested` form: sums of products in registers, and at once what is made of them. geom adds nothing.

The dims are rows, steps and lanes, as in `contract`. A tile of rows has its sums of a panel of lanes in registers; then
the rest of the body is computed from them, vector by vector, stored or reduced along the row. Lanes are one panel if
registers can hold it, else what rows are reduced to lies in memory from panel to panel. Sums are of products one after
the other, as BLAS makes them (and of few: see panels.py). Positions may be known before (argmin_f32.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from tilewise.backend.llvm.emit.control import each, within
from tilewise.backend.llvm.emit.frame import STREAM_ALIGN, Frame
from tilewise.backend.llvm.emit.memory import load, memory_type, store
from tilewise.backend.llvm.emit.text import Val, fma
from tilewise.backend.llvm.loops.prefetch import L2, fetch
from tilewise.backend.llvm.loops.reducers import Accumulators
from tilewise.backend.llvm.loops.rows import fold
from tilewise.backend.llvm.loops.sums import Stack, State
from tilewise.backend.llvm.loops.walk import store_plain
from tilewise.backend.llvm.math.scalar import IR_TYPE
from tilewise.backend.llvm.patterns.argmin_f32 import Guess
from tilewise.backend.llvm.products.contract import Point, panel_pointers, take_steps

ROW, STEP = 0, 1  # dims
AHEAD = 4  # tiles: what is fetched is there when it is read (2 and 8 take longer)
FAR_BYTES = 512 << 10  # of all rows of a call, at most, for those of the next call to be fetched instead


def emit(frame: Frame) -> None:
    """for tile: for step; for row of the tile: for vector."""
    fn, spec = frame.fn, frame.spec
    rows = frame.sizes[ROW]
    full = fn.let(f"sub i64 {rows}, {fn.let(f'urem i64 {rows}, {spec.high}')}")
    tall, flat = (_Tile(frame, high) for high in (spec.high, 1))
    start = "0"
    if spec.stream:
        start = fn.let(f"select i1 {_aligned(frame)}, i64 {full}, i64 0")
        past = _Tile(frame, spec.high, stream=True)
        each(fn, "0", start, str(spec.high), past.emit)
    guess = Guess(frame) if spec.guess is not None else None
    if guess is not None:
        guess.emit()
    each(fn, start, full, str(spec.high), partial(_emit, tall, guess))
    each(fn, full, rows, "1", partial(_emit, flat, guess))


def _emit(tile: _Tile, guess: Guess | None, first: str) -> None:
    """Code for a tile; where positions were guessed, for one with rows that are uncertain."""
    if guess is None:
        tile.emit(first)
        return
    fn = tile.frame.fn
    uncertain, last = guess.is_uncertain(first, tile.high), fn.let(f"add i64 {first}, {tile.high}")
    each(fn, first, fn.let(f"select i1 {uncertain}, i64 {last}, i64 {first}"), str(tile.high), tile.emit)


def _aligned(frame: Frame) -> str:
    """Whether the output begins with a cache line; then all tiles do."""
    place = frame.fn.let(f"ptrtoint ptr {frame.bases[frame.n_inputs]} to i64")
    return frame.fn.let(f"icmp eq i64 {frame.fn.let(f'and i64 {place}, {STREAM_ALIGN - 1}')}, 0")


class _Tile:
    """Some rows, with all their lanes; stored past the caches, they meet in memory first, to make whole cache lines."""

    def __init__(self, frame: Frame, high: int, *, stream: bool = False) -> None:
        self.frame, self.high = frame, high
        self.room: str | None = None  # where rows meet
        if stream:
            kind = memory_type(frame.dtypes[frame.n_inputs])
            self.room = frame.fn.hoist(
                f"alloca {kind}, i64 {high * frame.spec.vectors * frame.lanes}, align {STREAM_ALIGN}"
            )
        inner = frame.kernel.inner
        assert inner is not None
        self.inner = inner
        self.summed = {inner}  # and the values of single steps, which stand for nothing after them
        for v in range(inner, frame.n_inputs - 1, -1):
            if v in self.summed and not frame.is_constant(v):
                self.summed.update(a for a in frame.instr(v).args if a < frame.n_inputs or not frame.is_constant(a))
        self.accs = Accumulators(frame)

    def emit(self, first: str) -> None:
        """Code for the tile that starts at a row."""
        frame, fn = self.frame, self.frame.fn
        rows = [
            frame.row_pointers(frame.bases, ROW, fn.let(f"add i64 {first}, {i}") if i else first)
            for i in range(self.high)
        ]
        if frame.spec.rest:
            self._panels(rows)
        else:
            starts = [self.accs.start(frame.lanes) for _ in rows]
            places = [self._placed(at, i) for i, at in enumerate(rows)]
            states = self._panel(rows, places, frame.spec.vectors, starts, last=True)
            for at, state in zip(places, states, strict=True):
                self._reduced(at, state)
        if self.room is not None:
            self._stored_past(self.room, rows[0][frame.n_inputs])

    def _panels(self, rows: list[list[str]]) -> None:
        """Panel after panel."""
        frame, fn, spec = self.frame, self.frame.fn, self.frame.spec
        assert self.room is None, "rows of several panels are not stored past the caches"
        states = Stack(fn, [part.dtype for part in self.accs.parts], frame.lanes, self.high)
        for i in range(self.high):
            states.store(str(i), self.accs.start(frame.lanes))

        def panel(p: str, vectors: int = spec.vectors, *, last: bool = False) -> None:
            at = [panel_pointers(frame, row, p) for row in rows]
            before = (states.load(str(i)) for i in range(self.high))  # each loaded when its row is done
            for i, state in enumerate(self._panel(at, at, vectors, before, last=last)):
                states.store(str(i), state)

        whole = fn.hoist(f"sdiv i64 {fn.hoist(f'sub i64 {frame.sizes[-1]}, 1')}, {spec.vectors * frame.lanes}")
        each(fn, "0", whole, "1", panel)
        panel(whole, spec.rest, last=True)
        for i, at in enumerate(rows):
            self._reduced(at, states.load(str(i)))

    def _panel(
        self, rows: list[list[str]], places: list[list[str]], vectors: int, states: Iterable[State], *, last: bool
    ) -> Iterator[State]:
        """The states of the rows after some vectors, one by one as they are made; what is stored goes to places."""
        frame, fn = self.frame, self.frame.fn
        columns = [str(v * frame.lanes) for v in range(vectors)]
        masks: list[Val | None] = [None] * vectors
        if not frame.spec.even:  # then this is the only panel: see panels.py
            masks = [within(fn, c, frame.sizes[-1], frame.lanes) for c in columns]
        zero = Val(fn, "", IR_TYPE[frame.kernel.dtypes[self.inner]], frame.lanes).const(0.0)
        # Of rows and vectors, the more are read once for all of the fewer, right before use: registers are few.
        cells = [(i, v) for v in range(vectors) for i in range(self.high)]
        if vectors < self.high:
            cells.sort()
        fetched = self._fetched(rows[0]) if last and self.high == frame.spec.high else []

        def step(point: Point, state: State) -> State:
            for pointer, size in fetched:
                offset = fn.let(f"mul i64 {point.step}, {self.high * size}")
                fetch(fn, fn.let(f"getelementptr i8, ptr {pointer}, i64 {offset}"), L2)
            return [self._added(point, i, v, acc) for (i, v), acc in zip(cells, state, strict=True)]

        found = take_steps(frame, rows, masks, ("0", frame.sizes[STEP]), step, [zero] * len(cells))
        sums = dict(zip(cells, found, strict=True))
        lanes = list(zip(columns, masks, strict=True))
        for i, (at, state) in enumerate(zip(places, states, strict=True)):
            yield self._row(at, [(*lane, sums[i, v]) for v, lane in enumerate(lanes)], state)

    def _placed(self, at: list[str], row: int) -> list[str]:
        """Pointers of a row, with that of the output where rows meet."""
        if self.room is None:
            return at
        fn, k = self.frame.fn, self.frame.n_inputs
        offset = fn.hoist(f"mul i64 {self.frame.strides[k][ROW]}, {row}")
        return [*at[:k], fn.let(f"getelementptr i8, ptr {self.room}, i64 {offset}"), *at[k + 1 :]]

    def _stored_past(self, room: str, target: str) -> None:
        """Copy the rows of the tile to the output, past the caches."""
        frame, fn, k = self.frame, self.frame.fn, self.frame.n_inputs
        dtype = frame.dtypes[k]
        lanes = STREAM_ALIGN // np.dtype(dtype).itemsize

        def line(at: str) -> None:
            value = load(fn, fn.let(f"getelementptr i8, ptr {room}, i64 {at}"), dtype, lanes)
            frame.write(k, fn.let(f"getelementptr i8, ptr {target}, i64 {at}"), value, None, stream=True)

        each(fn, "0", fn.hoist(f"mul i64 {frame.strides[k][ROW]}, {self.high}"), str(STREAM_ALIGN), line)

    def _fetched(self, row: list[str]) -> list[tuple[str, int]]:
        """Where a later tile begins, and the bytes of an element, for inputs of which each tile has its own rows.

        Each step fetches as much of it as it reads of this one: the hardware does not see rows that are read at once.
        If this call is for a cache tile, the next one follows in memory and is fetched whole, for passes before this.
        """
        frame, fn = self.frame, self.frame.fn
        found = []
        for k in range(frame.n_inputs):
            if frame.spec.varies[k] and k in self.summed:
                size = np.dtype(frame.dtypes[k]).itemsize
                near = fn.hoist(f"mul i64 {frame.strides[k][ROW]}, {AHEAD * self.high}")
                whole = fn.hoist(f"mul i64 {frame.strides[k][ROW]}, {frame.sizes[ROW]}")
                few = fn.hoist(f"icmp ult i64 {whole}, {FAR_BYTES}")
                far = fn.hoist(f"select i1 {few}, i64 {whole}, i64 {near}")
                found.append((fn.let(f"getelementptr i8, ptr {row[k]}, i64 {far}"), size))
        return found

    def _added(self, point: Point, i: int, v: int, acc: Val) -> Val:
        (value,) = self.frame.instr(self.inner).args
        factors = self.frame.factors(value)
        if factors is None:
            return acc + point.get(value, i, v, self.frame.lanes)
        a, b = (point.get(f, i, v, self.frame.lanes) for f in factors)
        return fma(a, b, acc)

    def _row(self, at: list[str], lanes: list[tuple[str, Val | None, Val]], state: State) -> State:
        """What becomes of the sums of one row: its state after these lanes (their columns, masks and sums)."""
        frame = self.frame
        fixed = frame.uniform(at)
        for column, mask, total in lanes:
            summed = dict.fromkeys(self.summed, total)
            values = frame.values(at, column, fixed, frame.lanes, mask, summed)
            store_plain(frame, values, at, column, mask)
            if state:
                state = self.accs.add(state, values, at, column, mask)
        return state

    def _reduced(self, at: list[str], state: State) -> None:
        """Store what a row is reduced to."""
        for part, result in zip(self.accs.parts, fold(self.accs, state) if state else [], strict=True):
            if part.operand is not None:
                store(self.frame.fn, at[part.operand], result, part.dtype)
