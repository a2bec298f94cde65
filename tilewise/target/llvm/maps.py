"""The `map` form: every output is stored. geom adds nothing."""

from __future__ import annotations

import numpy as np

from tilewise.target.llvm.control import minimum
from tilewise.target.llvm.frame import STREAM_ALIGN, Frame
from tilewise.target.llvm.inverse import Kept, inverse
from tilewise.target.llvm.memory import memory_type, store
from tilewise.target.llvm.text import Val
from tilewise.target.llvm.turning import together
from tilewise.target.llvm.walk import UNROLL, nest, row, store_plain, whole

LEAST_ROWS, MOST_KEPT = 16, 1024  # for which inverses of a row's divisors are kept: times that they are used, columns


def emit(frame: Frame) -> None:
    """for outer: for column: store."""
    wide = (UNROLL if frame.kernel.turning is None else together(frame)) * frame.lanes
    for k in frame.spec.kept:
        _keep(frame, k)

    def inside(pointers: list[str]) -> None:
        fixed = frame.uniform(pointers)

        def point(column: str, lanes: int, mask: Val | None, *, stream: bool = False) -> None:
            values = frame.values(pointers, column, fixed, lanes, mask)
            store_plain(frame, values, pointers, column, mask, stream=stream)

        start, stop = "0", frame.sizes[-1]
        if frame.spec.stream:
            # Plain code up to aligned memory (all of the row, if the outputs are never aligned together).
            start = _aligned(frame, pointers)
            row(frame, "0", start, point, wide=0)
            for turn in _lines(frame, wide):
                start = whole(frame.fn, start, stop, turn, lambda c, lanes, m: point(c, lanes, m, stream=True))
        row(frame, start, stop, point, wide=0 if frame.spec.stream else wide)

    nest(frame, frame.spec.rank - 1, inside)


def _keep(frame: Frame, k: int) -> None:
    """The inverses of an input along a row, for all rows."""
    fn, dtype = frame.fn, frame.dtypes[k]
    places = [fn.hoist(f"alloca [{MOST_KEPT} x {memory_type(dtype)}], align 64") for _ in range(2)]
    closely = fn.hoist("alloca i1, align 1")
    fn.do(f"store i1 false, ptr {closely}, align 1")

    def point(column: str, lanes: int, mask: Val | None) -> None:
        made = inverse(frame.read(k, frame.address(k, frame.bases, column), lanes, mask))
        for place, value in zip(places, (made.reciprocal, made.rest), strict=True):
            store(fn, fn.let(f"getelementptr {value.ty}, ptr {place}, i64 {column}"), value, dtype, mask)
        either = [fn.let(f"load i1, ptr {place}, align 1") for place in (closely, made.closely)]
        fn.do(f"store i1 {fn.let(f'or i1 {either[0]}, {either[1]}')}, ptr {closely}, align 1")

    row(frame, "0", frame.sizes[-1], point, wide=0)
    frame.kept[k] = Kept(places[0], places[1], closely)


def _lines(frame: Frame, wide: int) -> tuple[int, ...]:
    """The elements that turns of the streaming loops store, a wide one and one for what is left of a row."""
    full = frame.lanes * np.dtype(frame.dtypes[-1]).itemsize % STREAM_ALIGN == 0
    return (wide, frame.lanes) if full else (wide,)


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
