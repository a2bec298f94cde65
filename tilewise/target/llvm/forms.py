"""The three loop forms. In: a kernel and a `Spec`. Out: a `Function` whose loops visit the box that geom describes.

    map      for outer: for column: store                           (no reduced dim)
    rows     for outer: for chunk: for block: for row: for column   (innermost dim reduced)
    columns  for outer: for chunk: for tile: for row: for column    (innermost dim kept)

Sums have a fixed shape. A *chunk* gives one partial result at a place of its own; which thread makes it is all the
same. `rows` cuts a chunk into up to BLOCKS blocks, each at most STEPS additions deep in every lane of the accumulator;
blocks and then lanes are added pairwise. `combine.py` adds the partials pairwise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewise.kernel.loops import Kernel
from tilewise.target.llvm.frame import (
    STREAM_ALIGN,
    Frame,
    Spec,
    each,
    load,
    loop,
    memory_type,
    minimum,
    store,
    tail_mask,
)
from tilewise.target.llvm.scalar import IR_TYPE, RULES, identity
from tilewise.target.llvm.text import Function, Val

STEPS = 16  # additions in sequence, as many as in NumPy's pairwise sum
BLOCKS = 8  # blocks of one chunk
CHUNK_ROWS = 32  # rows added in sequence by `columns`
COLUMN_TILE = 1024  # columns whose accumulators stay in the L1 cache
UNROLL = 4  # vectors per turn of a light loop

Point = Callable[[str, int, Val | None], None]  # (column, lanes, mask) -> code for those lanes


def build(kernel: Kernel, spec: Spec, name: str) -> Function:
    """The function of a kernel in one form."""
    frame = Frame(kernel, spec, name)
    {"map": _map, "rows": _rows, "columns": _columns}[spec.form](frame)
    if spec.stream:
        frame.fn.do("fence seq_cst")  # streamed stores are not ordered with what says that they are done
    return frame.fn


def _nest(frame: Frame, dims: int, inside: Callable[[list[str]], None]) -> None:
    """Loops over the first dims; `inside` gets every operand's pointer."""

    def level(d: int, pointers: list[str]) -> None:
        if d == dims:
            inside(pointers)
        else:
            each(frame.fn, "0", frame.sizes[d], "1", lambda i: level(d + 1, frame.row_pointers(pointers, d, i)))

    level(0, frame.bases)


def _row(frame: Frame, start: str, stop: str, point: Point, *, wide: int) -> None:
    """Code for the columns start … stop: wide turns where that pays, then vectors, then what is left."""
    fn, lanes = frame.fn, frame.lanes
    if frame.light and wide > lanes:
        start = _whole(fn, start, stop, wide, point)
    if frame.masked:
        each(fn, start, stop, str(lanes), lambda i: point(i, lanes, tail_mask(fn, i, stop, lanes)))
        return
    if lanes > 1:
        start = _whole(fn, start, stop, lanes, point)
    each(fn, start, stop, "1", lambda i: point(i, 1, None))


def _whole(fn: Function, start: str, stop: str, lanes: int, point: Point) -> str:
    """As many full turns as fit; returns where they end."""
    length = fn.let(f"sub i64 {stop}, {start}")
    full = fn.let(f"and i64 {length}, {-lanes}")
    end = fn.let(f"add i64 {start}, {full}")
    each(fn, start, end, str(lanes), lambda i: point(i, lanes, None))
    return end


def _store_plain(
    frame: Frame, values: list[Val], pointers: list[str], column: str, mask: Val | None, *, stream: bool = False
) -> None:
    """Store the outputs that are not reduced."""
    for j, (output, value) in enumerate(zip(frame.kernel.outputs, values, strict=True)):
        if output.reduce is None:
            k = frame.n_inputs + j
            frame.write(k, frame.address(k, pointers, column), value, mask, stream=stream)


def _map(frame: Frame) -> None:
    wide = UNROLL * frame.lanes

    def inside(pointers: list[str]) -> None:
        fixed = frame.uniform(pointers)

        def point(column: str, lanes: int, mask: Val | None, *, stream: bool = False) -> None:
            values = frame.values(pointers, column, fixed, lanes, mask)
            _store_plain(frame, values, pointers, column, mask, stream=stream)

        start, stop = "0", frame.sizes[-1]
        if frame.spec.stream:
            # Plain code up to aligned memory (all of the row, if the outputs are never aligned together).
            start = _aligned(frame, pointers)
            _row(frame, "0", start, point, wide=0)
            start = _whole(frame.fn, start, stop, wide, lambda c, lanes, m: point(c, lanes, m, stream=True))
        _row(frame, start, stop, point, wide=0 if frame.spec.stream else wide)

    _nest(frame, frame.spec.rank - 1, inside)


def _aligned(frame: Frame, pointers: list[str]) -> str:
    """The first column where every output is aligned for streaming; the end of the row if there is none."""
    fn, stop = frame.fn, frame.sizes[-1]
    outs = [fn.let(f"ptrtoint ptr {p} to i64") for p in pointers[frame.n_inputs :]]
    size = np.dtype(frame.dtypes[-1]).itemsize
    missing = fn.let(f"and i64 {fn.let(f'sub i64 0, {outs[0]}')}, {STREAM_ALIGN - 1}")
    apart = fn.let(f"and i64 {missing}, {size - 1}")
    for other in outs[1:]:
        differ = fn.let(f"and i64 {fn.let(f'xor i64 {outs[0]}, {other}')}, {STREAM_ALIGN - 1}")
        apart = fn.let(f"or i64 {apart}, {differ}")
    head = minimum(fn, fn.let(f"udiv i64 {missing}, {size}"), stop)
    return fn.let(f"select i1 {fn.let(f'icmp eq i64 {apart}, 0')}, i64 {head}, i64 {stop}")


def _columns(frame: Frame) -> None:
    """geom adds: first chunk, chunk after the last."""
    fn = frame.fn
    first_chunk, last_chunk = frame.extra(0), frame.extra(1)
    rows, columns = frame.sizes[-2], frame.sizes[-1]

    def inside(pointers: list[str]) -> None:
        def chunk(c: str) -> None:
            low = fn.let(f"mul i64 {c}, {CHUNK_ROWS}")
            high = minimum(fn, fn.let(f"add i64 {low}, {CHUNK_ROWS}"), rows)
            partials = _partial_pointers(frame, pointers, -2, c)

            def tile(left: str) -> None:
                right = minimum(fn, fn.let(f"add i64 {left}, {COLUMN_TILE}"), columns)
                each(fn, low, high, "1", lambda r: one_row(r, left, right))

            def one_row(r: str, left: str, right: str) -> None:
                at = frame.row_pointers(pointers, frame.spec.rank - 2, r)
                fixed = frame.uniform(at)
                fresh = fn.let(f"icmp eq i64 {r}, {low}")

                def point(column: str, lanes: int, mask: Val | None) -> None:
                    values = frame.values(at, column, fixed, lanes, mask)
                    _store_plain(frame, values, at, column, mask)
                    for j, where in partials.items():
                        _add_to(frame, j, values[j], {frame.n_inputs + j: where}, column, fresh, mask)

                _row(frame, left, right, point, wide=UNROLL * frame.lanes)

            each(fn, "0", columns, str(COLUMN_TILE), tile)

        each(fn, first_chunk, last_chunk, "1", chunk)

    _nest(frame, frame.spec.rank - 2, inside)


def _add_to(frame: Frame, j: int, value: Val, where: dict[int, str], column: str, fresh: str, mask: Val | None) -> None:
    """memory = (identity where fresh, else memory) op value."""
    op = frame.kernel.outputs[j].reduce
    assert op is not None
    k, dtype = frame.n_inputs + j, frame.dtypes[frame.n_inputs + j]
    at = frame.address(k, [where.get(i, "") for i in range(k + 1)], column)
    before = frame.read(k, at, value.lanes, mask)
    start = before.const(identity(op, dtype))
    acc = before.make(f"select i1 {fresh}, {start.text}, {before.text}")
    frame.write(k, at, RULES[op](dtype, acc, value), mask)


def _partial_pointers(frame: Frame, pointers: list[str], dim: int, chunk: str) -> dict[int, str]:
    """Where each reduced output keeps the partial of this chunk."""
    fn, found = frame.fn, {}
    for j, output in enumerate(frame.kernel.outputs):
        if output.reduce is not None:
            k = frame.n_inputs + j
            offset = fn.let(f"mul i64 {chunk}, {frame.strides[k][dim]}")
            found[j] = fn.let(f"getelementptr i8, ptr {pointers[k]}, i64 {offset}")
    return found


def _rows(frame: Frame) -> None:
    """geom adds: rows and columns of a chunk, rows and columns of a block, row and column step from block to block,
    first and last chunk along the rows, first and last along the columns."""
    fn = frame.fn
    chunk_rows, chunk_columns, block_rows, block_columns, row_step, column_step = (frame.extra(i) for i in range(6))
    rows, columns = frame.sizes[-2], frame.sizes[-1]
    slots = {j: _slots(frame, j) for j, o in enumerate(frame.kernel.outputs) if o.reduce is not None}

    def inside(pointers: list[str]) -> None:
        def down(r: str) -> None:
            top = fn.let(f"mul i64 {r}, {chunk_rows}")
            bottom = minimum(fn, fn.let(f"add i64 {top}, {chunk_rows}"), rows)
            places = _partial_pointers(frame, pointers, -2, r)

            def across(c: str) -> None:
                left = fn.let(f"mul i64 {c}, {chunk_columns}")
                right = minimum(fn, fn.let(f"add i64 {left}, {chunk_columns}"), columns)
                high = _ceil_div(fn, fn.let(f"sub i64 {bottom}, {top}"), block_rows)
                wide = _ceil_div(fn, fn.let(f"sub i64 {right}, {left}"), block_columns)
                count = fn.let(f"mul i64 {high}, {wide}")
                each(fn, "0", count, "1", lambda b: block(b, top, bottom, left, right))
                for j, slot in slots.items():
                    total = _fold(frame, j, slot, count)
                    k = frame.n_inputs + j
                    offset = fn.let(f"mul i64 {c}, {frame.strides[k][-1]}")
                    store(fn, fn.let(f"getelementptr i8, ptr {places[j]}, i64 {offset}"), total, frame.dtypes[k])

            each(fn, frame.extra(8), frame.extra(9), "1", across)

        def block(b: str, top: str, bottom: str, left: str, right: str) -> None:
            here = {j: _slot(frame, j, slot, b) for j, slot in slots.items()}
            for j, at in here.items():
                store(fn, at, _identity(frame, j, frame.tree_lanes), frame.dtypes[frame.n_inputs + j])
            first = fn.let(f"add i64 {top}, {fn.let(f'mul i64 {b}, {row_step}')}")
            last = minimum(fn, fn.let(f"add i64 {first}, {block_rows}"), bottom)
            start = fn.let(f"add i64 {left}, {fn.let(f'mul i64 {b}, {column_step}')}")
            stop = minimum(fn, fn.let(f"add i64 {start}, {block_columns}"), right)
            each(fn, first, last, "1", lambda r: _accumulate_row(frame, pointers, r, start, stop, here))

        each(fn, frame.extra(6), frame.extra(7), "1", down)

    _nest(frame, frame.spec.rank - 2, inside)


def _accumulate_row(frame: Frame, pointers: list[str], r: str, start: str, stop: str, slots: dict[int, str]) -> None:
    """Add the columns start … stop of one row to the accumulators in memory, lane by lane."""
    fn, full = frame.fn, frame.tree_lanes
    at = frame.row_pointers(pointers, frame.spec.rank - 2, r)
    fixed = frame.uniform(at)

    def combine(j: int, acc: Val, value: Val) -> Val:
        op = frame.kernel.outputs[j].reduce
        assert op is not None
        return RULES[op](frame.dtypes[frame.n_inputs + j], acc, value)

    if frame.light:
        length = fn.let(f"and i64 {fn.let(f'sub i64 {stop}, {start}')}, {-full}")
        middle = fn.let(f"add i64 {start}, {length}")
        dtype = {j: frame.dtypes[frame.n_inputs + j] for j in slots}

        def turn(column: str, accs: list[Val]) -> list[Val]:
            values = frame.values(at, column, fixed, full, None)
            _store_plain(frame, values, at, column, None)
            return [combine(j, acc, values[j]) for j, acc in zip(slots, accs, strict=True)]

        kept = [load(fn, slot, dtype[j], full) for j, slot in slots.items()]
        for (j, slot), acc in zip(slots.items(), loop(fn, start, middle, str(full), turn, kept), strict=True):
            store(fn, slot, acc, dtype[j])
    else:
        middle = start

    def point(column: str, lanes: int, mask: Val | None) -> None:
        values = frame.values(at, column, fixed, lanes, mask)
        _store_plain(frame, values, at, column, mask)
        lane = fn.let(f"and i64 {fn.let(f'sub i64 {column}, {start}')}, {full - 1}")
        for j, slot in slots.items():
            dtype = frame.dtypes[frame.n_inputs + j]
            place = fn.let(f"getelementptr {memory_type(dtype)}, ptr {slot}, i64 {lane}")
            value = mask.select(values[j], _identity(frame, j, lanes)) if mask else values[j]
            store(fn, place, combine(j, load(fn, place, dtype, lanes), value), dtype)

    _row(frame, middle, stop, point, wide=0)


def _identity(frame: Frame, j: int, lanes: int) -> Val:
    op, dtype = frame.kernel.outputs[j].reduce, frame.dtypes[frame.n_inputs + j]
    assert op is not None
    return Val(frame.fn, "", IR_TYPE[dtype], lanes).const(identity(op, dtype))


def _slots(frame: Frame, j: int) -> str:
    """Stack memory for the accumulators of a chunk's blocks."""
    dtype = frame.dtypes[frame.n_inputs + j]
    return frame.fn.hoist(f"alloca {memory_type(dtype)}, i64 {BLOCKS * frame.tree_lanes}, align 64")


def _slot(frame: Frame, j: int, slots: str, b: str) -> str:
    offset = frame.fn.let(f"mul i64 {b}, {frame.tree_lanes}")
    return frame.fn.let(f"getelementptr {memory_type(frame.dtypes[frame.n_inputs + j])}, ptr {slots}, i64 {offset}")


def _fold(frame: Frame, j: int, slots: str, count: str) -> Val:
    """Add `count` accumulators pairwise, then the lanes of the one that is left."""
    fn, lanes = frame.fn, frame.tree_lanes
    dtype, op = frame.dtypes[frame.n_inputs + j], frame.kernel.outputs[j].reduce
    assert op is not None
    rule = RULES[op]

    def pair(gap: int) -> Callable[[str], None]:
        def merge(b: str) -> None:
            here = _slot(frame, j, slots, b)
            there = _slot(frame, j, slots, fn.let(f"add i64 {b}, {gap}"))
            both = rule(dtype, load(fn, here, dtype, lanes), load(fn, there, dtype, lanes))
            store(fn, here, both, dtype)

        return merge

    gap = 1
    while gap < BLOCKS:
        each(fn, "0", fn.let(f"sub i64 {count}, {gap}"), str(2 * gap), pair(gap))
        gap *= 2
    total = load(fn, slots, dtype, lanes)
    while total.lanes > 1:
        half = total.lanes // 2
        total = rule(dtype, total.shuffle(0, half), total.shuffle(half, half))
    return total


def _ceil_div(fn: Function, a: str, b: str) -> str:
    up = fn.let(f"add i64 {a}, {fn.let(f'sub i64 {b}, 1')}")
    return fn.let(f"udiv i64 {up}, {b}")
