"""What a compiled function returns, of the numbers and arrays of its program. In: a structure. Out: what makes it.

Lists of a pool are made once for each number that a list has, so that a list that is twice in a result is one object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise.array.handle import from_buffer
from tilewise.python.containers import pools

ALL = slice(None)
Column = Callable[..., list[Any]]
Builder = Callable[[Sequence[Any], list[Any]], Any]


def builder(structure: Any) -> Builder:
    """What makes a result of a program's values."""
    make, used = _part(structure, 0)
    assert used >= 0
    if _pooled(structure):
        return lambda values, leaves: make(_Values(values), leaves)
    return make


def _pooled(structure: Any) -> bool:
    """Whether there are lists of pools in a result."""
    return isinstance(structure, tuple) and (structure[:1] in (("one",), ("lists",)) or any(map(_pooled, structure)))


class _Values(list[Any]):
    """The values of a result with lists in pools: those that were made of them, by their numbers."""

    def __init__(self, values: Sequence[Any]) -> None:
        super().__init__(values)
        self.made: dict[str, Any] = {}  # what is known of a pool


def _part(structure: Any, at: int) -> tuple[Builder, int]:
    kind = structure[0]
    if kind == "tuple":
        parts = []
        for s in structure[1:]:
            one, at = _part(s, at)
            parts.append(one)
        return (lambda values, leaves: tuple([p(values, leaves) for p in parts])), at
    if kind == "choice":
        which, at, ways = at, at + 1, []
        for s in structure[1:]:
            one, at = _part(s, at)
            ways.append(one)
        return (lambda values, leaves: ways[values[which]](values, leaves)), at
    if kind == "one":
        lists, end = _lists(structure[1], at)
        return (lambda values, leaves: lists(values, values[at])), end
    if kind == "list":
        items, end = _column(structure[1], at)
        return (lambda values, leaves: items(values)), end
    if kind == "made":
        empty = {"dict": dict, "set": set}[structure[1]]
        return (lambda values, leaves: empty()), at
    if kind == "set":
        items, end = _column(structure[1], at)
        return (lambda values, leaves: set(items(values))), end
    if kind == "dict":
        keys, middle = _column(structure[1], at)
        items, end = _column(structure[2], middle)
        return (lambda values, leaves: dict(zip(keys(values), items(values), strict=True))), end
    if kind == "object":
        value = structure[1].value
        return (lambda values, leaves: value), at
    if kind == "py":
        if structure[1] == "bool":
            return (lambda values, leaves: bool(values[at])), at + 1
        return (lambda values, leaves: values[at]), at + 1
    if kind == "np":
        make = np.dtype(structure[1]).type
        return (lambda values, leaves: make(values[at])), at + 1
    ours = structure[1] == "tilewise"

    def array(values: Sequence[Any], leaves: list[Any]) -> Any:
        found = values[at]
        if type(found) is tuple:
            return leaves[found[0]]
        return from_buffer(found.copy() if _shown(found) else found) if ours else found

    return array, at + 1


def _column(structure: Any, at: int) -> tuple[Column, int]:
    """What makes the items of a part of a container of its columns."""
    if structure[0] == "mixed":
        tags, at = at, at + 1
        several = []
        for s in structure[1:]:
            one, at = _column(s, at)
            several.append(one)

        def mixed(values: Any, part: slice = ALL) -> list[Any]:
            each = [p(values, part) for p in several]
            return [each[which][k] for k, which in enumerate(values[tags][part].tolist())]

        return mixed, at
    if structure[0] == "tuple":
        parts = []
        for s in structure[1:]:
            one, at = _column(s, at)
            parts.append(one)
        return (lambda values, part=ALL: list(zip(*[p(values, part) for p in parts], strict=True))), at
    if structure[0] == "lists":
        lists, end = _lists(structure, at)
        return (lambda values, part=ALL: [lists(values, n) for n in values[at][part].tolist()]), end
    if structure[0] == "py":
        return (lambda values, part=ALL: values[at][part].tolist()), at + 1
    return (lambda values, part=ALL: list(values[at][part])), at + 1


def _lists(structure: Any, at: int) -> tuple[Callable[[Any, int], list[Any]], int]:
    """What makes a list of a pool, by its number: once."""
    pool, heads, first = structure[1], at + 1, at + 2
    items, end = _column(structure[2], first) if len(structure) > 2 else (None, first)
    plain = structure[2][0] in ("py", "np") if items is not None else False

    def known_of(values: Any) -> tuple[list[int], list[int], list[Any] | None, dict[int, list[Any]]]:
        table = values[heads].reshape(-1, pools.WORDS)
        starts, counts = table[:, pools.START], table[:, pools.COUNT]
        if not plain:
            return starts.tolist(), counts.tolist(), None, {}
        packed = np.cumsum(counts) - counts  # where lists begin without the room between them
        column = values[first][np.repeat(starts - packed, counts) + np.arange(counts.sum())]
        every = column.tolist() if structure[2][0] == "py" else list(column)
        return packed.tolist(), counts.tolist(), every, {}

    def one(values: Any, number: int) -> list[Any]:
        if pool not in values.made:
            values.made[pool] = known_of(values)
        starts, counts, every, known = values.made[pool]
        if number not in known:
            part = slice(starts[number], starts[number] + counts[number])
            known[number] = [] if items is None else items(values, part) if every is None else every[part]
        return known[number]  # type: ignore[no-any-return]

    return one, end


def _shown(found: Any) -> bool:
    """Whether an array shows memory of an argument."""
    while isinstance(found, np.ndarray):
        found = found.base
    return hasattr(found, "keeps")
