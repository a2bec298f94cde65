"""The `columns` form: the innermost dim is kept. geom adds: blocks of a chunk, first chunk, chunk after the last.

A panel of a few vectors of columns goes down the rows of a chunk with its accumulators in registers; where vectors are
narrow and rows are not, strips.py does it.
"""

from __future__ import annotations

from functools import partial

from tilewise.backend.llvm.emit.control import ceil_div, each, loop, minimum, within
from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.loops import strips
from tilewise.backend.llvm.loops.reducers import Accumulators
from tilewise.backend.llvm.loops.sums import CHAINS, CHUNK_ROWS, LEVELS, Stack, State, pairwise
from tilewise.backend.llvm.loops.walk import chunks, store_plain


def emit(frame: Frame) -> None:
    """for outer: for chunk: for panel: for block: for row."""
    if frame.spec.strip:
        strips.emit(frame)
        return
    fn = frame.fn
    panels = [_Panel(frame, frame.lanes, frame.spec.vectors, masked=frame.masked)]
    if not frame.masked and panels[0].width > 1:
        panels.append(_Panel(frame, 1, 1, masked=False))  # what is left at the end of a row
    columns = frame.sizes[-1]

    def chunk(pointers: list[str], c: str, top: str, bottom: str) -> None:
        start = "0"
        for panel in panels:
            stop = columns
            if not panel.masked and panel.width > 1:
                stop = fn.let(f"sub i64 {columns}, {fn.let(f'urem i64 {columns}, {panel.width}')}")
            each(fn, start, stop, str(panel.width), partial(panel.emit, pointers, c, top, bottom))
            start = stop

    chunks(frame, chunk)


class _Panel:
    """A few vectors of columns, accumulated down the rows of a chunk."""

    def __init__(self, frame: Frame, lanes: int, vectors: int, *, masked: bool) -> None:
        self.frame, self.lanes, self.vectors, self.masked = frame, lanes, vectors, masked
        self.accs = Accumulators(frame)
        self.width = lanes * vectors
        dtypes = [part.dtype for part in self.accs.parts]
        self.stack = Stack(frame.fn, dtypes * vectors, lanes, LEVELS)
        self.per_vector = len(dtypes)

    def emit(self, pointers: list[str], chunk: str, top: str, bottom: str, left: str) -> None:
        """Code for the panel that starts at column `left`."""
        fn, lanes = self.frame.fn, self.lanes
        columns = [fn.let(f"add i64 {left}, {v * lanes}") for v in range(self.vectors)]
        masks = [within(fn, c, self.frame.sizes[-1], lanes) if self.masked else None for c in columns]
        blocks = ceil_div(fn, fn.let(f"sub i64 {bottom}, {top}"), str(CHUNK_ROWS))

        def block(b: str) -> State:
            first = fn.let(f"add i64 {top}, {fn.let(f'mul i64 {b}, {CHUNK_ROWS}')}")
            last = minimum(fn, fn.let(f"add i64 {first}, {CHUNK_ROWS}"), bottom)
            return self._block(pointers, first, last, columns, masks)

        total = pairwise(self.stack, blocks, block, self._merge)
        places = self.accs.places(pointers, -2, chunk)
        for v, (column, mask) in enumerate(zip(columns, masks, strict=True)):
            for part, place, value in zip(self.accs.parts, places, self._of(total, v), strict=True):
                if part.operand is not None:
                    k = part.operand
                    at = self.frame.address(k, [place] * (k + 1), column)
                    self.frame.write(k, at, value, mask)

    def _of(self, state: State, v: int) -> State:
        return state[v * self.per_vector : (v + 1) * self.per_vector]

    def _merge(self, a: State, b: State) -> State:
        return [x for v in range(self.vectors) for x in self.accs.merge(self._of(a, v), self._of(b, v))]

    def _block(self, pointers: list[str], first: str, last: str, columns: list[str], masks: list[Val | None]) -> State:
        """The rows first … last, added in CHAINS (if the body is light) that are merged pairwise."""
        fn = self.frame.fn
        chains = CHAINS if self.frame.light else 1
        start = [x for _ in range(self.vectors) for x in self.accs.start(self.lanes)]

        def one_row(r: str, state: State) -> State:
            at = self.frame.row_pointers(pointers, self.frame.spec.rank - 2, r)
            fixed = self.frame.uniform(at)
            result: State = []
            for v, (column, mask) in enumerate(zip(columns, masks, strict=True)):
                values = self.frame.values(at, column, fixed, self.lanes, mask)
                store_plain(self.frame, values, at, column, mask)
                result += self.accs.add(self._of(state, v), values, at, column, None)
            return result

        def turn(r: str, state: State) -> State:
            n, result = len(start), []
            for i in range(chains):
                here = fn.let(f"add i64 {r}, {i}") if i else r
                result += one_row(here, state[i * n : (i + 1) * n])
            return result

        if chains == 1:
            return loop(fn, first, last, "1", turn, start)
        length = fn.let(f"and i64 {fn.let(f'sub i64 {last}, {first}')}, {-chains}")
        middle = fn.let(f"add i64 {first}, {length}")
        sums = loop(fn, first, middle, str(chains), turn, start * chains)
        n = len(start)
        states = [sums[i * n : (i + 1) * n] for i in range(chains)]
        states[0] = loop(fn, middle, last, "1", one_row, states[0])
        while len(states) > 1:
            states = [self._merge(a, b) for a, b in zip(states[::2], states[1::2], strict=True)]
        return states[0]
