"""Brute force: run a loop on things that note who touches them. In: a program.

Out: what two iterations clash over, if any.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

READ, WRITE, ACCUMULATE = "read", "write", "accumulate"


class Log:
    """Which iterations touched which cells, and how."""

    def __init__(self) -> None:
        self.iteration: int | None = None
        self.cells: dict[Any, set[tuple[int, str]]] = defaultdict(set)
        self.count = 0

    def note(self, cells: Any, how: str) -> None:
        if self.iteration is not None:
            for cell in np.atleast_1d(cells).ravel().tolist():
                self.cells[cell].add((self.iteration, how))

    def clash(self) -> Any:
        """A cell that two iterations clash over."""
        for cell, events in self.cells.items():
            if len({k for k, _ in events}) < 2:
                continue
            kinds = {how for _, how in events}
            if len(kinds) > 1 or WRITE in kinds:  # accumulations by one operator may meet
                return cell, sorted(events)
        return None


class Recorded:
    """An array whose elements have numbers, which its views share."""

    def __init__(self, data: Any, log: Log, cells: Any = None) -> None:
        self.data, self.log = data, log
        if cells is None:
            cells = np.arange(log.count, log.count + data.size).reshape(data.shape)
            log.count += data.size
        self.cells = cells

    def like(self, function: Any) -> Recorded:
        """A view made by a function of arrays."""
        return Recorded(function(self.data), self.log, function(self.cells))

    def __getitem__(self, key: Any) -> Any:
        key = _plain(key)
        cells = self.cells[key]
        if isinstance(cells, np.ndarray) and cells.ndim:
            if _selects(key):
                self.log.note(cells, READ)
                return self.data[key]
            return Recorded(self.data[key], self.log, cells)
        self.log.note(cells, READ)
        return self.data[key].item()

    def __setitem__(self, key: Any, value: Any) -> None:
        key = _plain(key)
        value = value.read() if isinstance(value, Recorded) else value
        self.log.note(self.cells[key], WRITE)
        self.data[key] = value

    def read(self) -> Any:
        self.log.note(self.cells, READ)
        return self.data.copy()

    def accumulate(self, key: Any, value: Any, op: str = "+") -> None:
        key = _plain(key)
        value = value.read() if isinstance(value, Recorded) else value
        self.log.note(self.cells[key], ACCUMULATE + op)
        self.data[key] += value

    def put(self, value: Any) -> None:
        self[...] = value

    def fill(self, value: Any) -> None:
        self[...] = value

    def sort(self) -> None:
        self.put(np.sort(self.read()))

    def sum(self) -> float:
        return float(self.read().sum())

    def __add__(self, other: Any) -> Any:
        return self.read() + (other.read() if isinstance(other, Recorded) else other)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        return self.read() * (other.read() if isinstance(other, Recorded) else other)

    __rmul__ = __mul__


class Cells:
    """A list or dict whose cells have names."""

    def __init__(self, name: str, data: Any, log: Log) -> None:
        self.name, self.data, self.log = name, data, log

    def _cell(self, key: Any) -> Any:
        return (self.name, key + len(self.data) if isinstance(self.data, list) and key < 0 else key)

    def _note(self, key: Any, how: str) -> None:
        if self.log.iteration is not None:
            self.log.cells[self._cell(key)].add((self.log.iteration, how))

    def __getitem__(self, key: Any) -> Any:
        self._note(key, READ)
        return self.data[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._note(key, WRITE)
        self.data[key] = value

    def get(self, key: Any, default: Any) -> Any:
        self._note(key, READ)
        return self.data.get(key, default)

    def accumulate(self, key: Any, value: Any, op: str = "+", default: Any = None) -> None:
        self._note(key, ACCUMULATE + op)
        self.data[key] = (self.data[key] if default is None else self.data.get(key, default)) + value


class Attributes:
    """An object whose attributes are cells."""

    def __init__(self, name: Any, values: dict[str, Any], log: Log) -> None:
        self.__dict__["_cells"] = Cells(name, values, log)

    def __getattr__(self, name: str) -> Any:
        return self._cells[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._cells[name] = value

    def accumulate(self, name: str, value: Any) -> None:
        self._cells.accumulate(name, value)


class Grown:
    """A list that grows: one cell."""

    def __init__(self, name: Any, log: Log) -> None:
        self.cell, self.log, self.count = name, log, 0

    def _note(self, how: str) -> None:
        if self.log.iteration is not None:
            self.log.cells[self.cell].add((self.log.iteration, how))

    def append(self, value: Any) -> None:
        self._note(WRITE)
        self.count += 1

    def __len__(self) -> int:
        self._note(READ)
        return self.count


class Scalars:
    """Names: those read before they are assigned in an iteration keep a value of another one."""

    def __init__(self, log: Log, values: dict[str, Any]) -> None:
        self.__dict__["_log"] = log
        self.__dict__["_values"] = values
        self.__dict__["_fresh"] = set()

    def __getattr__(self, name: str) -> Any:
        log = self._log
        if log.iteration is not None and (name, log.iteration) not in self._fresh:
            log.cells["name", name].add((log.iteration, READ))
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        log = self._log
        self._fresh.add((name, log.iteration))
        if log.iteration is not None:
            log.cells["assigned", name].add((log.iteration, READ))  # alone it is private
        self._values[name] = value

    def accumulate(self, name: str, value: Any, largest: bool = False) -> None:
        log = self._log
        if (name, log.iteration) not in self._fresh:
            log.cells["name", name].add((log.iteration, ACCUMULATE))
        old = self._values[name]
        self._values[name] = max(old, value) if largest else old + value

    def clash(self, live: frozenset[str]) -> Any:
        """A name that carries a value from one iteration to another, or out of the loop."""
        for name in self._values:
            assigned = {k for k, _ in self._log.cells.get(("assigned", name), ())}
            events = self._log.cells.get(("name", name), set())
            reads = {k for k, how in events if how == READ}
            sums = {k for k, how in events if how == ACCUMULATE}
            if any(k != j for k in reads for j in assigned | sums):
                return name, "is carried"
            if sums and assigned and len(sums | assigned) > 1:
                return name, "is assigned and accumulated"
            if name in live and len(assigned) > 1:
                return name, "is live"
        return None


def _plain(key: Any) -> Any:
    if isinstance(key, Recorded):
        return key.read()
    return tuple(map(_plain, key)) if isinstance(key, tuple) else key


def _selects(key: Any) -> bool:
    return isinstance(key, np.ndarray | list) or (isinstance(key, tuple) and any(map(_selects, key)))
