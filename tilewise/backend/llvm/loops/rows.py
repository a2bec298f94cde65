"""The `rows` form: the innermost dim is reduced. geom adds: rows and columns of a chunk, rows and columns of a block,
row and column step from block to block, first and last chunk along the rows, first and last along the columns; then for
rows and for columns the number of chunks, the blocks of a chunk, the blocks of the last chunk.

A chunk is cut into blocks, each at most STEPS additions deep in every lane of the accumulator; blocks and then lanes
are merged pairwise.
"""

from __future__ import annotations

from tilewise.backend.llvm.emit.bodies import guarded, lanes_before_sums
from tilewise.backend.llvm.emit.control import each, loop, minimum, within
from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.memory import store
from tilewise.backend.llvm.emit.text import Val, joined
from tilewise.backend.llvm.loops.prefetch import fetch_ahead
from tilewise.backend.llvm.loops.reducers import Accumulators
from tilewise.backend.llvm.loops.sums import MOST_BLOCKS, Stack, State, pairwise
from tilewise.backend.llvm.loops.walk import nest, row, store_plain
from tilewise.backend.llvm.math import neon
from tilewise.kernel.family import ARM

LEVELS = MOST_BLOCKS.bit_length()
VECTORS = 4  # of an accumulator, at most, for those at the end of a row to have code of their own each
GUARDED = 2  # quotients and roots with a branch of their own, from which on a body has code for VECTORS, not for all


def emit(frame: Frame) -> None:
    """for outer: for chunk: for block: for row: for column."""
    fn = frame.fn
    chunk_rows, chunk_columns, block_rows, block_columns, row_step, column_step = (frame.extra(i) for i in range(6))
    rows, columns = frame.sizes[-2], frame.sizes[-1]
    accs = Accumulators(frame)
    stack = Stack(fn, [part.dtype for part in accs.parts], frame.tree_lanes, LEVELS)
    in_row = _in_row(frame, accs)

    def blocks_of(chunk: str, word: int) -> str:
        """The blocks of a chunk along one dim."""
        last = fn.let(f"sub i64 {frame.extra(word)}, 1")
        full = fn.let(f"icmp slt i64 {chunk}, {last}")
        return fn.let(f"select i1 {full}, i64 {frame.extra(word + 1)}, i64 {frame.extra(word + 2)}")

    def inside(pointers: list[str]) -> None:
        def down(r: str) -> None:
            top = fn.let(f"mul i64 {r}, {chunk_rows}")
            bottom = minimum(fn, fn.let(f"add i64 {top}, {chunk_rows}"), rows)
            places, high = accs.places(pointers, -2, r), blocks_of(r, 10)

            def across(c: str) -> None:
                left = fn.let(f"mul i64 {c}, {chunk_columns}")
                right = minimum(fn, fn.let(f"add i64 {left}, {chunk_columns}"), columns)
                count = fn.let(f"mul i64 {high}, {blocks_of(c, 13)}")
                lanes = pairwise(stack, count, lambda b: block(b, top, bottom, left, right), accs.merge)
                for part, place, total in zip(accs.parts, places, fold(accs, lanes), strict=True):
                    if part.operand is not None:
                        offset = fn.let(f"mul i64 {c}, {frame.strides[part.operand][-1]}")
                        store(fn, fn.let(f"getelementptr i8, ptr {place}, i64 {offset}"), total, part.dtype)

            each(fn, frame.extra(8), frame.extra(9), "1", across)

        def block(b: str, top: str, bottom: str, left: str, right: str) -> State:
            first = fn.let(f"add i64 {top}, {fn.let(f'mul i64 {b}, {row_step}')}")
            last = minimum(fn, fn.let(f"add i64 {first}, {block_rows}"), bottom)
            start = fn.let(f"add i64 {left}, {fn.let(f'mul i64 {b}, {column_step}')}")
            stop = minimum(fn, fn.let(f"add i64 {start}, {block_columns}"), right)

            def one_row(r: str, state: State) -> State:
                return in_row.add(state, frame.row_pointers(pointers, frame.spec.rank - 2, r), start, stop)

            return loop(fn, first, last, "1", one_row, accs.start(frame.tree_lanes))

        each(fn, frame.extra(6), frame.extra(7), "1", down)

    nest(frame, frame.spec.rank - 2, inside)


def emit_short(frame: Frame) -> None:
    """for outer: for column. A row is one block, and its result goes straight to the output; geom adds nothing."""
    accs = Accumulators(frame)
    in_row = _in_row(frame, accs)

    def inside(pointers: list[str]) -> None:
        lanes = in_row.add(accs.start(frame.tree_lanes), pointers, "0", frame.sizes[-1])
        for part, total in zip(accs.parts, fold(accs, lanes), strict=True):
            if part.operand is not None:
                store(frame.fn, pointers[part.operand], total, part.dtype)

    nest(frame, frame.spec.rank - 1, inside)


def _in_row(frame: Frame, accs: Accumulators) -> _InRegisters | _InMemory:
    return _InRegisters(frame, accs) if frame.light and frame.masked else _InMemory(frame, accs)


class _InRegisters:
    """Columns of a row are added a whole accumulator at a time, the last ones under a mask."""

    def __init__(self, frame: Frame, accs: Accumulators) -> None:
        self.frame, self.accs = frame, accs

    def add(self, state: State, at: list[str], start: str, stop: str) -> State:
        """The state after the columns start … stop of the row at these pointers."""
        fn, full = self.frame.fn, self.frame.tree_lanes
        fixed = self.frame.uniform(at)

        def turn(column: str, state: State, mask: Val | None = None) -> State:
            fetch_ahead(self.frame, at, column, full)
            values = self.frame.values(at, column, fixed, full, mask)
            store_plain(self.frame, values, at, column, mask)
            return self.accs.add(state, values, at, column, mask)

        length = fn.let(f"and i64 {fn.let(f'sub i64 {stop}, {start}')}, {-full}")
        middle = fn.let(f"add i64 {start}, {length}")
        state = loop(fn, start, middle, str(full), turn, state)
        return loop(fn, middle, stop, str(full), lambda c, s: turn(c, s, within(fn, c, stop, full)), state)


class _InMemory:
    """The accumulator lies in memory and a vector (or, at the end of a row, an element) is added to its lanes."""

    def __init__(self, frame: Frame, accs: Accumulators) -> None:
        self.frame, self.accs = frame, accs
        self.slot = Stack(frame.fn, [part.dtype for part in accs.parts], frame.tree_lanes, 1)

    def add(self, state: State, at: list[str], start: str, stop: str) -> State:
        """The state after the columns start … stop of the row at these pointers."""
        frame, fn, full = self.frame, self.frame.fn, self.frame.tree_lanes
        fixed = frame.uniform(at)
        middle, wide = start, 0
        if frame.light and guarded(frame.kernel, frame.spec.classes, frame.spec.machine) >= GUARDED:
            wide = min(full, VECTORS * frame.lanes)
        elif frame.light:
            length = fn.let(f"and i64 {fn.let(f'sub i64 {stop}, {start}')}, {-full}")
            middle = fn.let(f"add i64 {start}, {length}")
            state = self._whole(state, at, start, middle, fixed)
            if frame.spec.form == "short" and 1 < frame.lanes < full <= VECTORS * frame.lanes:
                state, middle = self._vectors(state, at, middle, stop, fixed)

        def point(column: str, lanes: int, mask: Val | None) -> None:
            values = frame.values(at, column, fixed, lanes, mask)
            store_plain(frame, values, at, column, mask)
            lane = fn.let(f"and i64 {fn.let(f'sub i64 {column}, {start}')}, {full - 1}")
            slot = self.slot.part(lane, lanes)
            slot.store("0", self.accs.add(slot.load("0"), values, at, column, mask))

        def rest(column: str, state: State) -> State:
            self.slot.store("0", state)
            row(frame, column, stop, point, wide=wide)
            return self.slot.load("0")

        return loop(fn, middle, stop, fn.let(f"sub i64 {stop}, {middle}"), rest, state)  # one iteration or none

    def _vectors(self, state: State, at: list[str], start: str, stop: str, fixed: dict[int, Val]) -> tuple[State, str]:
        """The state after as many columns as are vectors, of fewer than all lanes; and where they end."""
        frame, fn, lanes = self.frame, self.frame.fn, self.frame.lanes
        pieces = [[v.shuffle(k, lanes) for v in state] for k in range(0, frame.tree_lanes, lanes)]
        for k, piece in enumerate(pieces[:-1]):
            here = fn.let(f"add i64 {start}, {k * lanes}")

            def turn(_: str, piece: State, here: str = here) -> State:
                values = frame.values(at, here, fixed, lanes, None)
                store_plain(frame, values, at, here, None)
                return self.accs.add(piece, values, at, here, None)

            last = fn.let(f"add i64 {here}, {lanes - 1}")
            pieces[k] = loop(fn, last, stop, str(2 * frame.tree_lanes), turn, piece)  # one iteration or none
        whole = fn.let(f"and i64 {fn.let(f'sub i64 {stop}, {start}')}, {-lanes}")
        return [joined(list(part)) for part in zip(*pieces, strict=True)], fn.let(f"add i64 {start}, {whole}")

    def _whole(self, state: State, at: list[str], start: str, stop: str, fixed: dict[int, Val]) -> State:
        """The state after columns that are whole accumulators: as many lanes in a loop as registers can hold."""
        frame, fn, full = self.frame, self.frame.fn, self.frame.tree_lanes
        few, many = _steps(frame, state)

        def lanes_from(first: int) -> list[State]:
            """Their states, after all columns; those of a few lanes at a time follow each other."""
            firsts = range(first, first + many, few)

            def turn(column: str, flat: State) -> State:
                after: State = []
                fetch_ahead(frame, at, fn.let(f"add i64 {column}, {first}"), many, in_order=many == full)
                for k, lane in enumerate(firsts):
                    here = fn.let(f"add i64 {column}, {lane}")
                    values = frame.values(at, here, fixed, few, None)
                    store_plain(frame, values, at, here, None)
                    some = self.accs.add(flat[k * len(state) : (k + 1) * len(state)], values, at, here, None)
                    after += [neon.kept(v) for v in some] if ARM and "rarely" in fn.helpers else some
                return after

            flat = loop(fn, start, stop, str(full), turn, [v.shuffle(lane, few) for lane in firsts for v in state])
            return [flat[k : k + len(state)] for k in range(0, len(flat), len(state))]

        if few == full:
            return lanes_from(0)[0]
        pieces = [piece for first in range(0, full, many) for piece in lanes_from(first)]
        return [joined(list(of_part)) for of_part in zip(*pieces, strict=True)]


def _steps(frame: Frame, state: State) -> tuple[int, int]:
    """The lanes of an accumulator that are added at once, and those that stay in registers during a loop."""
    machine, many = frame.spec.machine, frame.tree_lanes
    if not machine.vector_bytes:
        return many, many
    room = 8 * machine.vector_bytes * machine.registers // 2  # bits; the other half is for what is added
    while many * sum(v.lane_bits for v in state) > room and many > frame.lanes:
        many //= 2
    few = max(2 * frame.lanes, lanes_before_sums(frame.kernel, machine.vector_bytes) if frame.lanes > 1 else 1)
    return min(many, few), many


def fold(accs: Accumulators, lanes: State) -> State:
    """The lanes of an accumulator, merged pairwise."""
    while lanes[0].lanes > 1:
        half = lanes[0].lanes // 2
        lanes = accs.merge([v.shuffle(0, half) for v in lanes], [v.shuffle(half, half) for v in lanes])
    return lanes
