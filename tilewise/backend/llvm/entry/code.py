"""The machine code that takes calls of compiled functions. In: where things lie in objects. Out: its address."""

from __future__ import annotations

import ctypes

from tilewise.backend.entry import Places
from tilewise.backend.llvm.compile import build, helper, linker, waiting
from tilewise.backend.llvm.compile.relocation import RULES, Unknown
from tilewise.backend.llvm.entry.module import module


def address(at: Places) -> int:
    """Where it is, for ever; 0 where there can be no such code."""
    if RULES is None:
        return 0
    given = {"new_array": at.new_array, "new_number": at.new_number, "set_base": at.set_base}
    try:
        entry, owner = linker.linked(waiting.code("entry", module(at)), build.ENTRY, given)
    except (OSError, RuntimeError, Unknown, helper.Ended):
        return 0
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    return entry
