"""The garbage collector while `import tilewise` runs. In: nothing. Out: an import and an end that take less.

Nothing of what is loaded is garbage, but the collector would look through all of it some times while it is loaded, once
more soon after, and three times when the program ends: 60 ms in all. So there are no collections during the import, and
where nothing of the program itself exists yet (imports stand at its top), what is there then is frozen (`gc.freeze`).

What is frozen is never garbage for the collector, so it must not hold what the program makes later: Python finalises
objects of a module at the end (it closes files, calls `__del__`) because module and functions are a cycle of garbage.
Hence nothing is frozen where the program has functions, classes or objects already, and its modules never are.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

_HARMLESS = (str, int, float, complex, bytes, type(None))  # nothing hangs on them
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class Quickly:
    """No collections until `end`."""

    def __init__(self) -> None:
        self._enabled = gc.isenabled()
        self._program = programs_modules() if self._enabled else None
        self._references = _references(self._program or ())
        gc.disable()

    def end(self) -> None:
        """Let the collector go on."""
        if self._enabled:
            self._enabled = False
            # More references than before: something that was loaded, or garbage, holds a module of the program.
            if self._program is not None and _references(self._program) == self._references:
                freeze_all_but(self._program)
            gc.enable()

    def __del__(self) -> None:
        """The import has failed."""
        self._program = None
        self.end()


def programs_modules() -> list[ModuleType] | None:
    """The modules of the program that imports us, if there is nothing but imports in them yet; else None."""
    if sys.implementation.name != "cpython" or len(sys._current_frames()) > 1 or _in_a_function():
        return None
    ours = os.path.dirname(__file__) + os.sep
    standard = os.path.dirname(os.__file__) + os.sep
    installed, program = set(), []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if name == "__main__" or (
            file and not file.startswith((standard, ours)) and not any(part in file for part in _INSTALLED)
        ):
            program.append(module)
        else:
            installed.add(name)
    for module in program:
        for name, value in list(vars(module).items()):
            if not (name.startswith("__") or _imported(value, installed)):
                return None
    return program


def _in_a_function() -> bool:
    """Whether a function of someone's imports us: its variables are in no module."""
    frame = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "tilewise":
        frame = frame.f_back  # type: ignore[assignment]
    while frame is not None:
        code = frame.f_code
        if code.co_name != "<module>" and not code.co_filename.startswith("<frozen "):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _imported(value: Any, installed: set[str]) -> bool:
    """Whether a program can have this by an import of what is installed, or without one."""
    if isinstance(value, ModuleType) or type(value) in _HARMLESS:
        return True
    home = value.__module__ if isinstance(value, type) or callable(value) else type(value).__module__
    return home in installed if hasattr(value, "__name__") else home == "__future__"


def _references(modules: Iterable[ModuleType]) -> list[tuple[int, int]]:
    return [(sys.getrefcount(module), sys.getrefcount(vars(module))) for module in modules]


def freeze_all_but(modules: list[ModuleType]) -> None:
    """Take all objects there are from the collector, but for some modules and what is in them."""
    untrack, track = (
        ctypes.PYFUNCTYPE(None, ctypes.py_object)((name, ctypes.pythonapi))
        for name in ("PyObject_GC_UnTrack", "PyObject_GC_Track")
    )
    both = {id(each): each for module in modules for each in (module, vars(module))}  # one may have several names
    kept = [each for each in both.values() if gc.is_tracked(each)]
    for each in kept:
        untrack(each)
    gc.freeze()
    for each in kept:
        track(each)
