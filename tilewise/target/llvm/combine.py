"""Add partial results pairwise, in place. In: a reduction, a dtype. Out: a `Function`; the order is fixed.

geom holds: outer items and their byte stride, partials of each and their byte stride, contiguous columns of a partial,
and the number of levels of the tree. The result of an outer item ends in its first partial.
"""

from __future__ import annotations

from tilewise.target.llvm.frame import DATA_OFFSET, each, load, memory_type, store
from tilewise.target.llvm.scalar import RULES
from tilewise.target.llvm.text import Function


def build(op: str, dtype: str, lanes: int, name: str) -> Function:
    """The function that combines partials of one dtype by one operation."""
    fn = Function(name, "ptr noalias %objs, ptr noalias %geom")
    words = [fn.hoist(f"getelementptr i64, ptr %geom, i64 {i}") for i in range(6)]
    outer, outer_stride, count, stride, columns, levels = (fn.hoist(f"load i64, ptr {w}, align 8") for w in words)
    field = fn.hoist(f"getelementptr i8, ptr {fn.hoist('load ptr, ptr %objs, align 8')}, i64 {DATA_OFFSET}")
    base = fn.hoist(f"load ptr, ptr {field}, align 8")
    whole = fn.hoist(f"and i64 {columns}, {-lanes}")

    def moved(pointer: str, index: str, by: str) -> str:
        return fn.let(f"getelementptr i8, ptr {pointer}, i64 {fn.let(f'mul i64 {index}, {by}')}")

    def item(a: str) -> None:
        start = moved(base, a, outer_stride)
        each(fn, "0", levels, "1", lambda level: one_level(start, level))

    def one_level(start: str, level: str) -> None:
        gap = fn.let(f"shl i64 1, {level}")
        step, stop = fn.let(f"shl i64 {gap}, 1"), fn.let(f"sub i64 {count}, {gap}")
        each(fn, "0", stop, step, lambda i: pair(moved(start, i, stride), fn.let(f"mul i64 {gap}, {stride}")))

    def pair(here: str, distance: str) -> None:
        there = fn.let(f"getelementptr i8, ptr {here}, i64 {distance}")
        each(fn, "0", whole, str(lanes), lambda c: merge(here, there, c, lanes))
        if lanes > 1:
            each(fn, whole, columns, "1", lambda c: merge(here, there, c, 1))

    def merge(here: str, there: str, column: str, width: int) -> None:
        element = memory_type(dtype)
        a = fn.let(f"getelementptr {element}, ptr {here}, i64 {column}")
        b = fn.let(f"getelementptr {element}, ptr {there}, i64 {column}")
        store(fn, a, RULES[op](dtype, load(fn, a, dtype, width), load(fn, b, dtype, width)), dtype)

    each(fn, "0", outer, "1", item)
    return fn
