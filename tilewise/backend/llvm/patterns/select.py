"""Elements where a mask holds. In: two contiguous arrays of one shape. Out: the elements, one after another.

NumPy branches at every element, and a mask of random data is what no CPU foresees. Here every element is stored and the
place moves on if it counts. Parts are counted first, so that each knows where it begins; a part ends with its last
element, and so writes nothing of the next one's.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from tilewise.backend import threads
from tilewise.backend.llvm.call.call_table import address
from tilewise.backend.llvm.compile.build import native
from tilewise.backend.llvm.emit.text import Function
from tilewise.store import pool
from tilewise.tuning import Tuning, follow

_part: int  # kept by `_adopt`
_unsure: int  # kept by `_adopt`

ND = np.ndarray[Any, Any]


def build(size: int, name: str) -> Function:
    """The function for elements of some bytes; objs: the addresses of elements, mask and result; geom: how many."""
    fn, element = Function(name, "ptr noalias %objs, ptr noalias %geom"), f"i{8 * size}"
    places = [fn.let(f"getelementptr i64, ptr %objs, i64 {i}") for i in range(3)]
    values, mask, out = (fn.let(f"load ptr, ptr {at}, align 8") for at in places)
    count = fn.let("load i64, ptr %geom, align 8")
    head, after, before = fn.fresh("head"), fn.fresh("after"), fn.block
    some = fn.let(f"icmp sgt i64 {count}, 0")
    fn.do(f"br i1 {some}, label %{head}, label %{after}")
    fn.label(head)
    index, place = "%" + fn.fresh("i"), "%" + fn.fresh("j")
    further, moved = "%" + fn.fresh("i"), "%" + fn.fresh("j")
    fn.do(f"{index} = phi i64 [ 0, %{before} ], [ {further}, %{head} ]")
    fn.do(f"{place} = phi i64 [ 0, %{before} ], [ {moved}, %{head} ]")
    value = fn.let(f"load {element}, ptr {fn.let(f'getelementptr {element}, ptr {values}, i64 {index}')}, align 1")
    target = fn.let(f"getelementptr {element}, ptr {out}, i64 {place}")
    fn.do(f"store {element} {value}, ptr {target}, align 1")
    holds = fn.let(f"load i8, ptr {fn.let(f'getelementptr i8, ptr {mask}, i64 {index}')}, align 1")
    step = fn.let(f"zext i8 {holds} to i64")
    fn.do(f"{moved} = add i64 {place}, {step}")
    fn.do(f"{further} = add i64 {index}, 1")
    again = fn.let(f"icmp slt i64 {moved}, {count}")
    fn.do(f"br i1 {again}, label %{head}, label %{after}")
    fn.label(after)
    return fn


@cache
def _function(size: int) -> Callable[..., None]:
    code = native(("select", size), lambda name: build(size, name))
    function: Any = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(address(code))
    function.code = code  # its memory lives as long as it does
    return function  # type: ignore[no-any-return]


def select(values: ND, mask: ND) -> ND | None:
    """values[mask] by all threads; None where NumPy must do it."""
    plain = values.flags.c_contiguous and mask.flags.c_contiguous and values.shape == mask.shape
    if not plain or mask.dtype != bool or values.dtype.kind not in "biufc":
        return None
    size = values.dtype.itemsize
    if size not in (1, 2, 4, 8):
        return None
    go, flat = _function(size), mask.reshape(-1)
    edges = (*range(0, flat.size, _part), flat.size)
    counts = [0] * (len(edges) - 1)

    def count(p: int) -> None:
        counts[p] = int(np.count_nonzero(flat[edges[p] : edges[p + 1]]))

    threads.run(count, len(counts))
    starts = (0, *accumulate(counts))
    if not flat.size // _unsure < starts[-1] < flat.size - flat.size // _unsure:
        return None
    out = pool.empty((starts[-1],), values.dtype)
    first, holds, target = (a.__array_interface__["data"][0] for a in (values, flat, out))

    def part(p: int) -> None:
        go(
            struct.pack("<3q", first + edges[p] * size, holds + edges[p], target + starts[p] * size),
            struct.pack("<q", counts[p]),
        )

    threads.run(part, len(counts))
    return out


def _adopt(tuning: Tuning) -> None:
    """Keep the figures that are needed often."""
    global _part, _unsure
    _part = tuning.select_part
    _unsure = tuning.select_unsure


follow(_adopt)
