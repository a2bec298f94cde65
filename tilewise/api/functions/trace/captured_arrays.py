"""A function that refers to other arrays. In: the function, what stands for its arrays. Out: a copy of it.

The arrays themselves stay as they are: other threads may be using them. A trace runs the function once (or twice, and
in vain); what is replayed later would leave a write to an outer ndarray out, so the copy sees them read-only.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tilewise.api.functions.purity import PACKAGES, Untraceable, plain, scan
from tilewise.api.functions.trace.scalar_tracer import PACKAGE
from tilewise.array.handle import Array

NOT_USERS = (PACKAGE, np.__path__[0] + os.sep)


class Captured:
    """What stands for the values that a function refers to; `arrays`: by the identity of those that are replaced."""

    def __init__(self, arrays: dict[int, Array] | None = None) -> None:
        self._arrays = arrays or {}
        self._functions: dict[int, FunctionType] = {}
        self._views: dict[int, tuple[Any, Any]] = {}  # ndarrays, and what stands for them

    def of(self, value: Any) -> Any:
        """Of an Array the other one, of an ndarray a view; of a function one that refers to them, directly or not."""
        t = type(value)
        if t is Array:
            return self._arrays.get(id(value), value)
        if t is np.ndarray:
            return self._view(value)
        if t is tuple:
            return tuple(map(self.of, value))
        if isinstance(value, ModuleType):
            return value if value.__name__.split(".")[0] in PACKAGES else _Module(value, self)
        if isinstance(value, np.vectorize):
            return np.vectorize(self.of(value.pyfunc), otypes=value.otypes)
        f = plain(value)
        return value if f is None else self._function(f)

    def _view(self, a: Any) -> Any:
        if id(a) not in self._views:
            view = a.view()
            view.flags.writeable = False
            self._views[id(a)] = a, view
        return self._views[id(a)][1]

    def _function(self, f: FunctionType) -> FunctionType:
        if id(f) in self._functions:
            return self._functions[id(f)]
        names, cells = dict(f.__globals__), tuple(CellType() for _ in f.__closure__ or ())
        made = self._functions[id(f)] = FunctionType(f.__code__, names, f.__name__, closure=cells)
        made.__defaults__ = None if f.__defaults__ is None else tuple(map(self.of, f.__defaults__))
        made.__kwdefaults__ = None if f.__kwdefaults__ is None else {k: self.of(v) for k, v in f.__kwdefaults__.items()}
        for read in scan(f.__code__).reads:
            if not read.free:
                value = f.__globals__[read.name] if read.name in f.__globals__ else getattr(builtins, read.name)
                names[read.name] = self.of(value)
        for cell, old in zip(cells, f.__closure__ or (), strict=True):
            cell.cell_contents = self.of(old.cell_contents)
        return made

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Raises Untraceable for writes to ndarrays that the function refers to. They do not happen."""
        try:
            yield
        except ValueError as error:
            if "read-only" in str(error) and any(a.flags.writeable for a, _ in self._views.values()):
                raise Untraceable("a write to an ndarray outside of it", line_of(error), pure=False) from None
            raise
        if any(a.shape != view.shape for a, view in self._views.values()):
            raise Untraceable("a new shape for an ndarray outside of it", pure=False)


class _Module:
    """A module of the user's."""

    def __init__(self, module: ModuleType, others: Captured) -> None:
        self._module, self._others = module, others

    def __getattr__(self, name: str) -> Any:
        return self._others.of(getattr(self._module, name))


def line_of(error: BaseException) -> str:
    """The user's line that an exception came from."""
    at, where = error.__traceback__, ""
    while at is not None:
        code = at.tb_frame.f_code
        if not code.co_filename.startswith(NOT_USERS):
            where = f"{code.co_filename}:{at.tb_lineno}"
        at = at.tb_next
    return where
