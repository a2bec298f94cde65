"""The `map` form: every output is stored. geom adds nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilewise.backend.llvm.emit.control import each, minimum
from tilewise.backend.llvm.emit.frame import STREAM_ALIGN, Frame
from tilewise.backend.llvm.emit.memory import memory_type, store
from tilewise.backend.llvm.emit.spec import STRIDED, UNIT
from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.loops.walk import UNROLL, nest, row, store_plain, whole
from tilewise.backend.llvm.math.inverse import Kept, inverse
from tilewise.later import later

if TYPE_CHECKING:
    from tilewise.backend.llvm.loops import inner_loop
else:
    inner_loop = later("tilewise.backend.llvm.loops.inner_loop")

MOST_KEPT = 1024  # columns for which inverses of a row's divisors are kept, at most


def emit(frame: Frame) -> None:
    """for outer: for column: store."""
    wide = (UNROLL if frame.kernel.loop_body is None else inner_loop.together(frame)) * frame.lanes
    for k in frame.spec.kept:
        _keep(frame, k)
    once = not frame.light and not frame.masked and frame.lanes > 1 and not frame.kept
    once = once and STRIDED not in frame.spec.classes

    def inside(pointers: list[str]) -> None:
        fixed = frame.uniform(pointers)

        def point(column: str, lanes: int, mask: Val | None, *, stream: bool = False) -> None:
            at(pointers, column, lanes, mask, stream=stream)

        def at(here: list[str], column: str, lanes: int, mask: Val | None, *, stream: bool = False) -> None:
            values = frame.values(here, column, fixed, lanes, mask)
            store_plain(frame, values, here, column, mask, stream=stream)

        def plain(start: str, stop: str, wide: int) -> None:
            if once:
                _vectors(frame, pointers, start, stop, at)
            else:
                row(frame, start, stop, point, wide=wide)

        start, stop = "0", frame.sizes[-1]
        if frame.spec.stream:
            # Plain code up to aligned memory (all of the row, if the outputs are never aligned together).
            start = _aligned(frame, pointers)
            plain("0", start, 0)
            for iteration in _lines(frame, wide):
                start = whole(frame.fn, start, stop, iteration, lambda c, lanes, m: point(c, lanes, m, stream=True))
        plain(start, stop, 0 if frame.spec.stream else wide)

    nest(frame, frame.spec.rank - 1, inside)


def _vectors(frame: Frame, pointers: list[str], start: str, stop: str, at: Callable[..., None]) -> None:
    """The columns start … stop by one piece of code, which takes long to make twice, for vectors and for elements.

    What is left of a row is copied to memory of a whole vector (its last element again and again), and from there.
    """
    fn, lanes = frame.fn, frame.lanes
    sizes = [np.dtype(t).itemsize for t in frame.dtypes]
    places = {
        k: fn.hoist(f"alloca [{lanes} x i{8 * sizes[k]}], align 64")
        for k in range(len(sizes))
        if frame.spec.classes[k] == UNIT
    }

    length = fn.let(f"sub i64 {stop}, {start}")
    left = fn.let(f"and i64 {length}, {lanes - 1}")
    full = fn.let(f"sub i64 {stop}, {left}")
    some = fn.let(f"icmp ne i64 {left}, 0")

    def element(k: int, base: str, index: str) -> str:
        return fn.let(f"getelementptr i8, ptr {base}, i64 {fn.let(f'mul i64 {index}, {sizes[k]}')}")

    def copied(k: int, source: str, target: str) -> None:
        got = fn.let(f"load i{8 * sizes[k]}, ptr {source}, align 1")
        fn.do(f"store i{8 * sizes[k]} {got}, ptr {target}, align 1")

    def fill(e: str) -> None:
        here = fn.let(f"add i64 {full}, {minimum(fn, e, fn.let(f'sub i64 {left}, 1'))}")
        for k in places:
            if k < frame.n_inputs:
                copied(k, element(k, pointers[k], here), element(k, places[k], e))

    def empty(e: str) -> None:
        here = fn.let(f"add i64 {full}, {e}")
        for k in places:
            if k >= frame.n_inputs:
                copied(k, element(k, places[k], e), element(k, pointers[k], here))

    def part(last: str) -> None:
        """First the whole vectors, then (last = 1) what is left."""
        rest = fn.let(f"icmp ne i64 {last}, 0")
        here = list(pointers)
        for k, place in places.items():
            begin = element(k, place, fn.let(f"sub i64 0, {full}"))
            here[k] = fn.let(f"select i1 {rest}, ptr {begin}, ptr {pointers[k]}")
        begin, end = (fn.let(f"select i1 {rest}, i64 {a}, i64 {b}") for a, b in ((full, start), (stop, full)))
        each(fn, begin, end, str(lanes), lambda column: at(here, column, lanes, None))

    each(fn, "0", fn.let(f"select i1 {some}, i64 {lanes}, i64 0"), "1", fill)
    each(fn, "0", fn.let(f"select i1 {some}, i64 2, i64 1"), "1", part)
    each(fn, "0", left, "1", empty)


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
    """The elements that iterations of the streaming loops store, a wide one and one for what is left of a row."""
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
