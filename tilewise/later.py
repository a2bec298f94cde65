"""Modules that are loaded when something of them is first asked for. In: a name. Out: a stand-in for the module.

    if TYPE_CHECKING:
        from tilewise.array.evaluation import workers
    else:
        workers = later("tilewise.array.evaluation.workers")

For what most programs never need: meshes, explanations. It stands at the top of a file like any import, and points
downwards like any import (tests/test_layers.py).
"""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """A module by its name."""

    __slots__ = ("_module", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: Any = None

    def __getattr__(self, attribute: str) -> Any:
        if self._module is None:
            self._module = importlib.import_module(self._name)
        return getattr(self._module, attribute)


later = Later
