"""Modules that are loaded when something of them is first asked for. In: a name. Out: a stand-in for the module.

    if TYPE_CHECKING:
        from tilewise.array.evaluation import workers
    else:
        workers = later("tilewise.array.evaluation.workers")

For what many programs never need (meshes, explanations), or not before something else can be loaded beside it (plans).
It stands at the top of a file like any import, and points downwards like any import (tests/test_layers.py). Once the
module is loaded, the name means the module itself: later uses cost nothing.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any


class Later:
    """A module by its name."""

    __slots__ = ("_module", "_name", "_names")

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: Any = None
        self._names = sys._getframe(1).f_globals  # of the file that it stands in

    def __getattr__(self, attribute: str) -> Any:
        if self._module is None:
            self._module = importlib.import_module(self._name)
            for name in [name for name, value in self._names.copy().items() if value is self]:  # others may add some
                self._names[name] = self._module
        return getattr(self._module, attribute)


later = Later
