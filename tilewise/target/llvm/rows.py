"""The `rows` form: the innermost dim is reduced. geom adds: rows and columns of a chunk, rows and columns of a block,
row and column step from block to block, first and last chunk along the rows, first and last along the columns.

A chunk is cut into up to BLOCKS blocks, each at most STEPS additions deep in every lane of the accumulator; blocks and
then lanes are merged pairwise.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewise.target.llvm.control import ceil_div, each, loop, minimum
from tilewise.target.llvm.frame import Frame, load, memory_type, store
from tilewise.target.llvm.reducers import Accumulators, State
from tilewise.target.llvm.sums import BLOCKS, Stack
from tilewise.target.llvm.text import Val
from tilewise.target.llvm.walk import nest, row, store_plain


def emit(frame: Frame) -> None:
    """for outer: for chunk: for block: for row: for column."""
    fn = frame.fn
    chunk_rows, chunk_columns, block_rows, block_columns, row_step, column_step = (frame.extra(i) for i in range(6))
    rows, columns = frame.sizes[-2], frame.sizes[-1]
    accs = Accumulators(frame)
    slots = Stack(fn, [part.dtype for part in accs.parts], frame.tree_lanes, BLOCKS)

    def inside(pointers: list[str]) -> None:
        def down(r: str) -> None:
            top = fn.let(f"mul i64 {r}, {chunk_rows}")
            bottom = minimum(fn, fn.let(f"add i64 {top}, {chunk_rows}"), rows)
            places = accs.places(pointers, -2, r)

            def across(c: str) -> None:
                left = fn.let(f"mul i64 {c}, {chunk_columns}")
                right = minimum(fn, fn.let(f"add i64 {left}, {chunk_columns}"), columns)
                high = ceil_div(fn, fn.let(f"sub i64 {bottom}, {top}"), block_rows)
                wide = ceil_div(fn, fn.let(f"sub i64 {right}, {left}"), block_columns)
                count = fn.let(f"mul i64 {high}, {wide}")
                each(fn, "0", count, "1", lambda b: block(b, top, bottom, left, right))
                for part, place, total in zip(accs.parts, places, _fold(slots, accs, count), strict=True):
                    if part.operand is not None:
                        offset = fn.let(f"mul i64 {c}, {frame.strides[part.operand][-1]}")
                        store(fn, fn.let(f"getelementptr i8, ptr {place}, i64 {offset}"), total, part.dtype)

            each(fn, frame.extra(8), frame.extra(9), "1", across)

        def block(b: str, top: str, bottom: str, left: str, right: str) -> None:
            slots.store(b, accs.start(frame.tree_lanes))
            first = fn.let(f"add i64 {top}, {fn.let(f'mul i64 {b}, {row_step}')}")
            last = minimum(fn, fn.let(f"add i64 {first}, {block_rows}"), bottom)
            start = fn.let(f"add i64 {left}, {fn.let(f'mul i64 {b}, {column_step}')}")
            stop = minimum(fn, fn.let(f"add i64 {start}, {block_columns}"), right)
            each(fn, first, last, "1", lambda r: _accumulate_row(frame, accs, slots, pointers, r, start, stop, b))

        each(fn, frame.extra(6), frame.extra(7), "1", down)

    nest(frame, frame.spec.rank - 2, inside)


def _accumulate_row(
    frame: Frame, accs: Accumulators, slots: Stack, pointers: list[str], r: str, start: str, stop: str, block: str
) -> None:
    """Add the columns start … stop of one row to the accumulators in memory, lane by lane."""
    fn, full = frame.fn, frame.tree_lanes
    at = frame.row_pointers(pointers, frame.spec.rank - 2, r)
    fixed = frame.uniform(at)
    middle = start
    if frame.light:
        length = fn.let(f"and i64 {fn.let(f'sub i64 {stop}, {start}')}, {-full}")
        middle = fn.let(f"add i64 {start}, {length}")

        def turn(column: str, state: State) -> State:
            values = frame.values(at, column, fixed, full, None)
            store_plain(frame, values, at, column, None)
            return accs.add(state, values, at, column, None)

        slots.store(block, loop(fn, start, middle, str(full), turn, slots.load(block)))

    def point(column: str, lanes: int, mask: Val | None) -> None:
        values = frame.values(at, column, fixed, lanes, mask)
        store_plain(frame, values, at, column, mask)
        lane = fn.let(f"and i64 {fn.let(f'sub i64 {column}, {start}')}, {full - 1}")
        places = [
            fn.let(f"getelementptr {memory_type(part.dtype)}, ptr {slot}, i64 {lane}")
            for part, slot in zip(accs.parts, slots.addresses(block), strict=True)
        ]
        before = [load(fn, p, part.dtype, lanes) for p, part in zip(places, accs.parts, strict=True)]
        after = accs.add(before, values, at, column, mask)
        for place, part, value in zip(places, accs.parts, after, strict=True):
            store(fn, place, value, part.dtype)

    row(frame, middle, stop, point, wide=0)


def _fold(slots: Stack, accs: Accumulators, count: str) -> State:
    """Merge `count` blocks pairwise, then the lanes of the one that is left."""
    fn = slots.fn

    def pair(gap: int) -> Callable[[str], None]:
        def merge(b: str) -> None:
            slots.store(b, accs.merge(slots.load(b), slots.load(fn.let(f"add i64 {b}, {gap}"))))

        return merge

    gap = 1
    while gap < BLOCKS:
        each(fn, "0", fn.let(f"sub i64 {count}, {gap}"), str(2 * gap), pair(gap))
        gap *= 2
    total = slots.load("0")
    while total[0].lanes > 1:
        half = total[0].lanes // 2
        total = accs.merge([v.shuffle(0, half) for v in total], [v.shuffle(half, half) for v in total])
    return total
