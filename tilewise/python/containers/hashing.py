"""What goes through tables of dicts, written in the Python that is compiled. In: arrays. Out: entries, tables.

A table has a power of two of places, less than half of them used: -1 is free, -2 was an entry. The caller says which
hash a key has; equal hashes lie behind each other.
"""

from __future__ import annotations

import ast
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from tilewise.python.functions.source import keep_tree


def find(table, used, columns, key, hashed):  # type: ignore[no-untyped-def]
    """The entry of a key, or -1."""
    if used == 0:
        return -1
    mask = len(table) - 1
    at = hashed & mask
    entry = int(table[at])
    while entry != -1:
        if entry >= 0:
            same = True
            for column, part in zip(columns, key):  # noqa: B905
                if column[entry] != part:
                    same = False
            if same:
                return entry
        at = (at + 1) & mask
        entry = int(table[at])
    return -1


def enter(table, hashed, entry):  # type: ignore[no-untyped-def]
    mask = len(table) - 1
    at = hashed & mask
    while table[at] >= 0:
        at = (at + 1) & mask
    table[at] = entry
    return 0


def leave(table, hashed, entry):  # type: ignore[no-untyped-def]
    mask = len(table) - 1
    at = hashed & mask
    while table[at] != entry:
        at = (at + 1) & mask
    table[at] = -2
    return 0


def filled(size, hashes, used):  # type: ignore[no-untyped-def]
    """A new table with all entries."""
    table = np.full(size, -1)
    mask = size - 1
    for entry in range(used):
        at = int(hashes[entry]) & mask
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = entry
    return table


def squeeze(table, used, columns):  # type: ignore[no-untyped-def]
    """Move entries to the places of those that are gone. The first column says which ones, the second has hashes."""
    count = 0
    for entry in range(used):
        if columns[0][entry]:
            for column in columns:
                column[count] = column[entry]
            count += 1
    for at in range(len(table)):
        table[at] = -1
    mask = len(table) - 1
    for entry in range(count):
        at = int(columns[1][entry]) & mask
        while table[at] >= 0:
            at = (at + 1) & mask
        table[at] = entry
    return 0


def shifted(columns, start, into, count):  # type: ignore[no-untyped-def]
    """Copy items to places behind them."""
    for k in range(count):
        for column in columns:
            column[into + k] = column[start + k]
    return 0


def marked(count, roots):  # type: ignore[no-untyped-def]
    """Which of so many lists somebody has: those of some numbers, which are 0 before there is any."""
    marks = np.zeros(count + 1, dtype=np.bool_)
    for k in range(len(roots)):
        marks[roots[k]] = True
    return marks


def mark_items(marks, numbers, used):  # type: ignore[no-untyped-def]
    """And those that are items of a container."""
    for k in range(used):
        marks[numbers[k]] = True
    return 0


def mark_lists(marks, heads, count, numbers):  # type: ignore[no-untyped-def]
    """And those that are items of lists of another pool."""
    for number in range(count):
        start = int(heads[4 * number])
        for k in range(start, start + int(heads[4 * number + 1])):
            marks[numbers[k]] = True
    return 0


def live(marks, heads, count):  # type: ignore[no-untyped-def]
    """How many items these lists have."""
    items = 0
    for number in range(count):
        if marks[number]:
            items += int(heads[4 * number + 1])
    return items


@cache
def packed(count: int) -> FunctionType:
    """The function that copies the items of these lists to new columns, one behind the other; others lose theirs."""
    each = range(count)
    lines = [
        "def packed(columns, heads, marks, count, size):",
        *(f"    c{k} = np.empty(size, columns[{k}].dtype)" for k in each),
        "    used = 0",
        "    for number in range(count):",
        "        start = int(heads[4 * number])",
        "        items = int(heads[4 * number + 1]) if marks[number] else 0",
        "        for k in range(items):",
        *(f"            c{j}[used + k] = columns[{j}][start + k]" for j in each),
        "        heads[4 * number] = used",
        "        heads[4 * number + 1] = items",
        "        heads[4 * number + 2] = items",
        "        used += items",
        f"    return {', '.join(f'c{k}' for k in each)}",
    ]
    return _compiled("packed", lines)


@cache
def grown(count: int) -> FunctionType:
    """The function that gives so many columns more room, all of them in one loop."""
    return _renewing(count, "columns, used", "2 * used + 1")


@cache
def moved(count: int) -> FunctionType:
    """The same, with room for a number of entries that is given."""
    return _renewing(count, "columns, used, size", "size")


def _renewing(count: int, given: str, size: str) -> FunctionType:
    each = range(count)
    lines = [
        f"def grown({given}):",
        *(f"    c{k} = np.empty({size}, columns[{k}].dtype)" for k in each),
        "    for entry in range(used):",
        *(f"        c{k}[entry] = columns[{k}][entry]" for k in each),
        f"    return {', '.join(f'c{k}' for k in each)}",
    ]
    return _compiled("grown", lines)


def _compiled(name: str, lines: list[str]) -> FunctionType:
    module = ast.parse("\n".join(lines))
    names: dict[str, Any] = {"np": np}
    exec(compile(module, __file__, "exec"), names)
    (tree,) = module.body
    assert isinstance(tree, ast.FunctionDef)
    keep_tree(names[name], tree)
    return names[name]  # type: ignore[no-any-return]
