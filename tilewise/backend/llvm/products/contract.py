"""The `contract` form: register tiles. geom adds: first panel, panel after the last, unrolled points of a block.

The last three dims are unrolled (kept), steps (reduced) and lanes (kept). A tile of `high` points by `vectors` vectors
walks all steps with its accumulators in registers; what lacks a dim is read or computed once for all points along it.
Panels of lanes are the outer loop, so that the packed operands of a panel stay in the L1 cache; a block of the unrolled
dim goes through all panels, so that its operands stay in the L2 cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tilewise.backend.llvm.emit.control import ceil_div, each, either, loop, minimum, within
from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.memory import load, memory_type
from tilewise.backend.llvm.emit.spec import ZERO
from tilewise.backend.llvm.emit.text import Val, fma
from tilewise.backend.llvm.loops.reducers import Accumulators
from tilewise.backend.llvm.loops.sums import STEPS, Stack, State, pairwise
from tilewise.backend.llvm.loops.walk import nest
from tilewise.backend.llvm.math.scalar import is_float

LEVELS = 32  # of the tree along the steps
UNROLLED, STEP = -3, -2  # dims


def emit(frame: Frame) -> None:
    """for outer: for block: for panel: for tile: for step."""
    fn, spec = frame.fn, frame.spec
    tall, flat = _Tile(frame, spec.high), _Tile(frame, 1)
    points, block_points = frame.sizes[UNROLLED], frame.extra(2)

    def inside(pointers: list[str]) -> None:
        each(fn, "0", points, block_points, lambda low: block(pointers, low))

    def block(pointers: list[str], low: str) -> None:
        high = minimum(fn, fn.let(f"add i64 {low}, {block_points}"), points)
        count = fn.let(f"sub i64 {high}, {low}")
        tiles = fn.let(f"sub i64 {count}, {fn.let(f'urem i64 {count}, {spec.high}')}")
        middle = fn.let(f"add i64 {low}, {tiles}")

        def panel(p: str) -> None:
            at = panel_pointers(frame, pointers, p)
            left = fn.let(f"mul i64 {p}, {frame.lanes * spec.vectors}")
            columns = [fn.let(f"add i64 {left}, {v * frame.lanes}") for v in range(spec.vectors)]
            masks = [within(fn, c, frame.sizes[-1], frame.lanes) if frame.lanes > 1 else None for c in columns]
            right = fn.let(f"add i64 {left}, {frame.lanes * spec.vectors}")
            whole = fn.let(f"icmp sle i64 {right}, {frame.sizes[-1]}")
            each(fn, low, middle, str(spec.high), lambda u: tall.emit(at, u, masks, whole))
            each(fn, middle, high, "1", lambda u: flat.emit(at, u, masks, whole))

        each(fn, frame.extra(0), frame.extra(1), "1", panel)

    nest(frame, spec.rank - 3, inside)


def panel_pointers(frame: Frame, pointers: list[str], p: str) -> list[str]:
    """Every operand's pointer at a panel's first lane."""
    fn, width, moved = frame.fn, frame.lanes * frame.spec.vectors, []
    for k, pointer in enumerate(pointers):
        if k in frame.spec.packed:
            size = fn.let(f"mul i64 {frame.sizes[STEP]}, {frame.strides[k][STEP]}")
        else:
            size = fn.let(f"mul i64 {frame.strides[k][-1]}, {width}")
        moved.append(fn.let(f"getelementptr i8, ptr {pointer}, i64 {fn.let(f'mul i64 {p}, {size}')}"))
    return moved


class _Tile:
    """Some points of the unrolled dim by one panel."""

    def __init__(self, frame: Frame, high: int) -> None:
        self.frame, self.high = frame, high
        self.accs = Accumulators(frame)
        self.cells = [(i, v) for i in range(high) for v in range(frame.spec.vectors)]
        self.per_cell = len(self.accs.parts)
        dtypes = [part.dtype for part in self.accs.parts]
        # Only sums of floats round; other reductions need no tree, nor do the steps of one block.
        sums = any(r.op == "add" and is_float(r.dtype) for r in self.accs.reducers.values())
        self.tree = sums and not frame.spec.shallow
        self.stack = Stack(frame.fn, dtypes * len(self.cells), frame.lanes, LEVELS) if self.tree else None

    def _of(self, state: State, cell: int) -> State:
        return state[cell * self.per_cell : (cell + 1) * self.per_cell]

    def _merge(self, a: State, b: State) -> State:
        cells = range(len(self.cells))
        return [x for c in cells for x in self.accs.merge(self._of(a, c), self._of(b, c))]

    def emit(self, pointers: list[str], first: str, masks: list[Val | None], whole: str) -> None:
        """Code for the tile that starts at point `first` of the unrolled dim; `whole`: all lanes of the panel count."""
        frame, fn = self.frame, self.frame.fn
        dim = frame.spec.rank + UNROLLED
        rows = [
            frame.row_pointers(pointers, dim, fn.let(f"add i64 {first}, {i}") if i else first) for i in range(self.high)
        ]
        start = [x for _ in self.cells for x in self.accs.start(frame.lanes)]
        steps = frame.sizes[STEP]

        def along(low: str, high: str) -> State:
            return take_steps(frame, rows, masks, (low, high), self._step, start)

        def block(b: str) -> State:
            low = fn.let(f"mul i64 {b}, {STEPS}")
            return along(low, minimum(fn, fn.let(f"add i64 {low}, {STEPS}"), steps))

        if self.stack is None:
            total = along("0", steps)
        else:
            total = pairwise(self.stack, ceil_div(fn, steps, str(STEPS)), block, self._merge)
        if frame.masked:
            self._store(total, rows, masks)
        else:  # a masked store is one for each lane there
            plain: list[Val | None] = [None] * len(masks)
            either(fn, whole, lambda: self._store(total, rows, plain), lambda: self._store(total, rows, masks))

    def _store(self, total: State, rows: list[list[str]], masks: list[Val | None]) -> None:
        for c, (i, v) in enumerate(self.cells):
            for part, value in zip(self.accs.parts, self._of(total, c), strict=True):
                assert part.operand is not None
                at = self.frame.address(part.operand, rows[i], str(v * self.frame.lanes))
                self.frame.write(part.operand, at, value, masks[v])

    def _step(self, point: Point, state: State) -> State:
        """One step of every cell."""
        result: State = []
        for c, (i, v) in enumerate(self.cells):
            mine = self._of(state, c)
            done: State = []
            for j, reducer in self.accs.reducers.items():
                value = self.frame.kernel.outputs[j].value
                factors = self.frame.factors(value) if reducer.op == "add" and is_float(reducer.dtype) else None
                if factors is not None:
                    a, b = (point.get(f, i, v, self.frame.lanes) for f in factors)
                    done.append(fma(a, b, mine[len(done)]))
                else:
                    new = point.get(value, i, v, self.frame.lanes)
                    done += reducer.step(mine[len(done) : len(done) + 1], new, None, ordered=True)
            result += done
        return result


def take_steps(
    frame: Frame,
    rows: list[list[str]],
    masks: list[Val | None],
    bounds: tuple[str, str],
    step: Callable[[Point, State], State],
    state: State,
) -> State:
    """The state after the steps of some rows; several at a time where vectors along the steps can be read."""
    fn, (low, high) = frame.fn, bounds

    def turn(count: int, s: str, state: State) -> State:
        ahead = _Ahead(frame, rows, s) if count > 1 else None
        for j in range(count):
            state = step(Point(frame, rows, fn.let(f"add i64 {s}, {j}") if j else s, masks, ahead, j), state)
        return state

    if frame.spec.along:
        whole = fn.let(f"and i64 {fn.let(f'sub i64 {high}, {low}')}, {-frame.lanes}")
        middle = fn.let(f"add i64 {low}, {whole}")
        state = loop(fn, low, middle, str(frame.lanes), partial(turn, frame.lanes), state)
        low = middle
    return loop(fn, low, high, "1", partial(turn, 1), state)


class _Ahead:
    """Values at several steps, read at once."""

    def __init__(self, frame: Frame, rows: list[list[str]], first: str) -> None:
        self.frame, self.rows, self.first = frame, rows, first
        self._known: dict[tuple[int, int], Val] = {}

    def get(self, k: int, i: int, j: int) -> Val:
        """Input k of a row at step j of these."""
        frame, fn = self.frame, self.frame.fn
        if (k, i) not in self._known:
            at = fn.let(f"getelementptr {memory_type(frame.dtypes[k])}, ptr {self.rows[i][k]}, i64 {self.first}")
            self._known[k, i] = load(fn, at, frame.dtypes[k], frame.lanes)
        return self._known[k, i].shuffle(j, 1)


class Point:
    """The values at one step: each is made once for all cells that share it."""

    def __init__(
        self,
        frame: Frame,
        rows: list[list[str]],
        step: str,
        masks: list[Val | None],
        ahead: _Ahead | None = None,
        turn: int = 0,
    ) -> None:
        self.frame, self.rows, self.step, self.masks = frame, rows, step, masks
        self._ahead, self._turn = ahead, turn
        self._known: dict[tuple[int, int, int, int], Val] = {}
        self._offsets: dict[int, str] = {}
        n = frame.n_inputs
        self._unrolled = list(frame.spec.varies[:n])
        self._across = [kind != ZERO for kind in frame.spec.classes[:n]]
        for v in range(n, len(frame.kernel.dtypes)):
            args = () if frame.is_constant(v) else frame.instr(v).args
            self._unrolled.append(any(self._unrolled[a] for a in args))
            self._across.append(any(self._across[a] for a in args))

    def get(self, v: int, i: int, vector: int, lanes: int) -> Val:
        """Value v of a cell, in this many lanes."""
        if self.frame.is_constant(v):
            return self.frame.constant(v, lanes)
        i, vector = i if self._unrolled[v] else 0, vector if self._across[v] else 0
        own = self.frame.lanes if self._across[v] else 1
        key = (v, i, vector, lanes)
        if key not in self._known:
            if own != lanes:
                self._known[key] = self.get(v, i, vector, own).splat(lanes)
            elif v < self.frame.n_inputs:
                self._known[key] = self._read(v, i, vector, own)
            else:
                self._known[key] = self.frame.evaluate(v, lambda a: self.get(a, i, vector, own), own)
        return self._known[key]

    def _read(self, k: int, i: int, vector: int, lanes: int) -> Val:
        frame, fn = self.frame, self.frame.fn
        if self._ahead is not None and k in frame.spec.along:
            return self._ahead.get(k, i, self._turn)
        if k not in self._offsets:
            self._offsets[k] = fn.let(f"mul i64 {self.step}, {frame.strides[k][STEP]}")
        pointer = fn.let(f"getelementptr i8, ptr {self.rows[i][k]}, i64 {self._offsets[k]}")
        if k in frame.spec.packed:
            offset = vector * lanes * np.dtype(frame.dtypes[k]).itemsize
            return load(fn, fn.let(f"getelementptr i8, ptr {pointer}, i64 {offset}"), frame.dtypes[k], lanes)
        at = frame.address(k, [pointer] * (k + 1), str(vector * lanes))
        return frame.read(k, at, lanes, self.masks[vector] if lanes > 1 else None)
