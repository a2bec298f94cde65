"""Walking a box: what loop forms share. In: a `Frame` and functions that emit a point. Out: loops around them."""

from __future__ import annotations

from collections.abc import Callable

from tilewise.backend.llvm.emit.control import each, minimum, tail_mask
from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.text import Function, Val
from tilewise.backend.llvm.loops.sums import CHUNK_ROWS

UNROLL = 4  # vectors per iteration of a light loop

Point = Callable[[str, int, Val | None], None]  # (column, lanes, mask) -> code for those lanes


def nest(frame: Frame, dims: int, inside: Callable[[list[str]], None]) -> None:
    """Loops over the first dims; `inside` gets every operand's pointer."""

    def level(d: int, pointers: list[str]) -> None:
        if d == dims:
            inside(pointers)
        else:
            each(frame.fn, "0", frame.sizes[d], "1", lambda i: level(d + 1, frame.row_pointers(pointers, d, i)))

    level(0, frame.bases)


def chunks(frame: Frame, chunk: Callable[[list[str], str, str, str], None]) -> None:
    """Loops over chunks of rows, inside of those over outer dims; `chunk` gets pointers, number, begin, end."""
    fn, rows = frame.fn, frame.sizes[-2]
    high = fn.hoist(f"mul i64 {frame.extra(0)}, {CHUNK_ROWS}")

    def one(pointers: list[str], c: str) -> None:
        top = fn.let(f"mul i64 {c}, {high}")
        chunk(pointers, c, top, minimum(fn, fn.let(f"add i64 {top}, {high}"), rows))

    nest(frame, frame.spec.rank - 2, lambda p: each(fn, frame.extra(1), frame.extra(2), "1", lambda c: one(p, c)))


def row(frame: Frame, start: str, stop: str, point: Point, *, wide: int) -> None:
    """Code for the columns start … stop: unrolled where that pays, then vectors, then what is left."""
    fn, lanes = frame.fn, frame.lanes
    if frame.light and wide > lanes:
        start = whole(fn, start, stop, wide, point)
    if frame.masked:
        each(fn, start, stop, str(lanes), lambda i: point(i, lanes, tail_mask(fn, i, stop, lanes)))
        return
    if lanes > 1:
        start = whole(fn, start, stop, lanes, point)
    each(fn, start, stop, "1", lambda i: point(i, 1, None))


def whole(fn: Function, start: str, stop: str, lanes: int, point: Point) -> str:
    """As many unrolled iterations as fit; returns where they end."""
    length = fn.let(f"sub i64 {stop}, {start}")
    full = fn.let(f"and i64 {length}, {-lanes}")
    end = fn.let(f"add i64 {start}, {full}")
    each(fn, start, end, str(lanes), lambda i: point(i, lanes, None))
    return end


def store_plain(
    frame: Frame, values: list[Val], pointers: list[str], column: str, mask: Val | None, *, stream: bool = False
) -> None:
    """Store the outputs that are not reduced."""
    for j, output in enumerate(frame.kernel.outputs):
        if output.reduce is None:
            k = frame.n_inputs + j
            frame.write(k, frame.address(k, pointers, column), values[output.value], mask, stream=stream)
