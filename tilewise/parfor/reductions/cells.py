"""Cells of lists, dicts and instances that are accumulated. In: containers, operators. Out: what a task found, merged.

A task starts with neutral elements in these cells, as with arrays (combine.py), in a process that has its own copy of
the container. What it leaves there is brought into the cells of the container in the order of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.parfor.reductions.combine import combine, start_of


def _table(container: Any) -> Any:
    """What has the cells of a container: itself, or an instance's dict."""
    return container if isinstance(container, list | dict) else vars(container)


def _held(table: Any) -> dict[Any, Any]:
    return dict(enumerate(table)) if isinstance(table, list) else dict(table)


class SummedCells:
    """The cells of one container that a worker's tasks accumulate into. `keys` None: all of them."""

    def __init__(self, container: Any, op: str, keys: tuple[Any, ...] | None) -> None:
        self.table, self.keys = _table(container), keys
        held = _held(self.table)
        self.starts = {k: start_of(op, held[k]) for k in (held if keys is None else keys) if k in held}

    def begin(self) -> None:
        """Start a task."""
        if isinstance(self.table, dict):  # what an earlier task has added is its own
            for key in [k for k in self.table if (self.keys is None or k in self.keys) and k not in self.starts]:
                del self.table[key]
        for key, start in self.starts.items():
            self.table[key] = start

    def found(self) -> dict[Any, Any]:
        """What a task left in the cells that it changed."""
        keys, none = self.keys, object()
        held = {k: v for k, v in _held(self.table).items() if keys is None or k in keys}
        return {k: v for k, v in held.items() if v is not self.starts.get(k, none)}


def merge_cells(cells: Sequence[tuple[Any, str, Any]], parts: Sequence[dict[Any, Any]]) -> None:
    """Bring what a task found into containers.

    >>> counts = {"a": 1}
    >>> merge_cells([(counts, "+", None)], [{"a": 2, "b": 5}])
    >>> counts
    {'a': 3, 'b': 5}
    """
    for (container, op, _), part in zip(cells, parts, strict=True):
        table = _table(container)
        for key, value in part.items():
            there = isinstance(table, list) or key in table
            table[key] = combine(op, table[key], value) if there else value
