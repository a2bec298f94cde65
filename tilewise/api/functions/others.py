"""A function that refers to other arrays. In: the function, what stands for its arrays. Out: a copy of it.

The arrays themselves stay as they are: other threads may be using them.
"""

from __future__ import annotations

from types import CellType, FunctionType, ModuleType
from typing import Any

from tilewise.api.functions.reach import PACKAGES, plain, scan
from tilewise.array.handle import Array


class Others:
    """What stands for the values that a function refers to; `arrays`: by the identity of those that are replaced."""

    def __init__(self, arrays: dict[int, Array]) -> None:
        self._arrays = arrays
        self._functions: dict[int, FunctionType] = {}

    def of(self, value: Any) -> Any:
        """Of an Array the other one; of a function one that refers to it, directly or not."""
        if type(value) is Array:
            return self._arrays.get(id(value), value)
        if isinstance(value, ModuleType):
            return value if value.__name__.split(".")[0] in PACKAGES else _Module(value, self)
        f = plain(value)
        return value if f is None else self._function(f)

    def _function(self, f: FunctionType) -> FunctionType:
        if id(f) in self._functions:
            return self._functions[id(f)]
        names, cells = dict(f.__globals__), tuple(CellType() for _ in f.__closure__ or ())
        made = self._functions[id(f)] = FunctionType(f.__code__, names, f.__name__, closure=cells)
        made.__defaults__ = None if f.__defaults__ is None else tuple(map(self.of, f.__defaults__))
        made.__kwdefaults__ = None if f.__kwdefaults__ is None else {k: self.of(v) for k, v in f.__kwdefaults__.items()}
        for read in scan(f.__code__).reads:
            if not read.free and read.name in names:
                names[read.name] = self.of(f.__globals__[read.name])
        for cell, old in zip(cells, f.__closure__ or (), strict=True):
            cell.cell_contents = self.of(old.cell_contents)
        return made


class _Module:
    """A module of the user's."""

    def __init__(self, module: ModuleType, others: Others) -> None:
        self._module, self._others = module, others

    def __getattr__(self, name: str) -> Any:
        return self._others.of(getattr(self._module, name))
