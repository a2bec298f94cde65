"""Merge partial results pairwise, in place. In: a reduction, a dtype. Out: a `Function`; the order is fixed.

objs holds the arrays of the state; geom holds the number of items, partials of each, contiguous columns of a partial,
the levels of the tree, and which columns to merge. The result of an item ends in its first partial.
"""

from __future__ import annotations

from tilewise.backend.llvm.emit.control import each
from tilewise.backend.llvm.emit.frame import DATA_OFFSET
from tilewise.backend.llvm.emit.memory import load, memory_type, store
from tilewise.backend.llvm.emit.text import Function
from tilewise.backend.llvm.loops.reducers import Reducer


def build(reducer: Reducer, lanes: int, name: str) -> Function:
    """The function that combines the partials of one reduction."""
    fn = Function(name, "ptr noalias %objs, ptr noalias %geom")
    words = [fn.hoist(f"getelementptr i64, ptr %geom, i64 {i}") for i in range(6)]
    items, count, columns, levels, low, high = (fn.hoist(f"load i64, ptr {w}, align 8") for w in words)
    bases = [_base(fn, i) for i in range(len(reducer.dtypes))]
    full = fn.hoist(f"and i64 {fn.hoist(f'sub i64 {high}, {low}')}, {-lanes}")
    whole = fn.hoist(f"add i64 {low}, {full}")
    item_size = fn.hoist(f"mul i64 {count}, {columns}")

    def item(i: str) -> None:
        first = fn.let(f"mul i64 {i}, {item_size}")
        each(fn, "0", levels, "1", lambda level: one_level(first, level))

    def one_level(first: str, level: str) -> None:
        gap = fn.let(f"shl i64 1, {level}")
        step, stop = fn.let(f"shl i64 {gap}, 1"), fn.let(f"sub i64 {count}, {gap}")
        distance = fn.let(f"mul i64 {gap}, {columns}")
        each(
            fn,
            "0",
            stop,
            step,
            lambda p: pair(fn.let(f"add i64 {first}, {fn.let(f'mul i64 {p}, {columns}')}"), distance),
        )

    def pair(here: str, distance: str) -> None:
        there = fn.let(f"add i64 {here}, {distance}")
        each(fn, low, whole, str(lanes), lambda c: merge(here, there, c, lanes))
        if lanes > 1:
            each(fn, whole, high, "1", lambda c: merge(here, there, c, 1))

    def merge(here: str, there: str, column: str, width: int) -> None:
        a, b = (_addresses(fn, reducer, bases, fn.let(f"add i64 {at}, {column}")) for at in (here, there))
        first, second = (
            [load(fn, p, t, width) for p, t in zip(places, reducer.dtypes, strict=True)] for places in (a, b)
        )
        for place, value, dtype in zip(a, reducer.merge(first, second), reducer.dtypes, strict=True):
            store(fn, place, value, dtype)

    each(fn, "0", items, "1", item)
    return fn


def _base(fn: Function, i: int) -> str:
    obj = fn.hoist(f"load ptr, ptr {fn.hoist(f'getelementptr i64, ptr %objs, i64 {i}')}, align 8")
    return fn.hoist(f"load ptr, ptr {fn.hoist(f'getelementptr i8, ptr {obj}, i64 {DATA_OFFSET}')}, align 8")


def _addresses(fn: Function, reducer: Reducer, bases: list[str], index: str) -> list[str]:
    return [
        fn.let(f"getelementptr {memory_type(t)}, ptr {base}, i64 {index}")
        for base, t in zip(bases, reducer.dtypes, strict=True)
    ]
