"""The machine code of handles' operators. In: where things lie in objects, a table. Out: addresses of functions.

Kept on disk by what makes it. Where it is not, the compiler's process makes it, while the program goes on.
"""

from __future__ import annotations

import ctypes

from tilewise.backend.handles import FUNCTIONS, Offsets
from tilewise.backend.llvm.compile import build, helper, linker, waiting
from tilewise.backend.llvm.compile.relocation import RULES, Unknown
from tilewise.backend.llvm.handles.module import module


def addresses(at: Offsets, state: int) -> dict[str, int]:
    """Where the functions are that use the table at an address; none where there can be no such code."""
    if RULES is None:
        return {}
    try:
        given = {"state": state, "new_array": at.new_array}
        entry, owner = linker.linked(waiting.code("handles", module(at)), build.ENTRY, given)
    except (OSError, RuntimeError, Unknown, helper.Ended):
        return {}
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))  # for ever: handles may outlive all modules of the interpreter
    found = (ctypes.c_uint64 * len(FUNCTIONS))()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(entry)(None, ctypes.addressof(found))
    return dict(zip(FUNCTIONS, found, strict=True))
