"""Whether what a function refers to is still the same. In: names, cells and functions met once. Out: a quick test.

Working out the key of a function takes as long as running it on small arrays. As long as every name it reads stands for
the very same object, and all of these are of kinds that do not change, the key is what it was.
"""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any

ABSENT = object()


class Guards:
    """The names, cells, functions and NumPy arrays that a key was made from; `sure`: nothing else could change it.

    `kinds`: a class of arrays is among them, as for `isinstance`. `ours`: something of this package is. `loose`:
    ndarrays and floats that functions refer to by name, if only their types are part of the key.
    """

    __slots__ = ("arrays", "cells", "functions", "kinds", "loose", "names", "ours", "sure")

    def __init__(self) -> None:
        self.names: list[tuple[dict[str, Any], str, Any]] = []
        self.cells: list[tuple[CellType, Any]] = []
        self.functions: list[tuple[FunctionType, Any, Any]] = []
        self.arrays: list[tuple[Any, Any, Any, Any]] = []
        self.sure, self.kinds, self.ours = True, False, False
        self.loose: list[Any] | None = None

    def name(self, where: dict[str, Any], name: str) -> None:
        """Guards what a name stands for (or that it stands for nothing)."""
        self.names.append((where, name, where.get(name, ABSENT)))

    def cell(self, cell: CellType) -> None:
        """Guards a variable of an enclosing function."""
        self.cells.append((cell, cell.cell_contents))

    def function(self, f: FunctionType) -> None:
        """Guards a function's code and default values."""
        self.functions.append((f, f.__code__, f.__defaults__))
        self.sure = self.sure and f.__kwdefaults__ is None

    def array(self, found: Any) -> None:
        """Guards how a NumPy array lies in memory, which may be changed in place."""
        self.arrays.append((found, found.shape, found.strides, found.dtype))

    def holds(self) -> bool:
        """Whether all is as it was."""
        if not self.sure:
            return False
        for where, name, value in self.names:
            if where.get(name, ABSENT) is not value:
                return False
        for f, code, defaults in self.functions:
            if f.__code__ is not code or f.__defaults__ is not defaults or f.__kwdefaults__ is not None:
                return False
        for array, shape, strides, dtype in self.arrays:
            if array.shape != shape or array.strides != strides or array.dtype != dtype:
                return False
        try:
            for cell, value in self.cells:
                if cell.cell_contents is not value:
                    return False
        except ValueError:  # a variable that has no value any more
            return False
        return True
