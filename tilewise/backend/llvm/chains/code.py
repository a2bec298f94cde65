"""The machine code of expressions. In: an Expression. Out: a function, as soon as there is one.

Kept on disk by what makes it. Where it is not, the compiler's process makes it while the program goes on.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

from tilewise.backend.chains import Arrived, Expression
from tilewise.backend.llvm.chains.text import module
from tilewise.backend.llvm.compile import build, helper, linker
from tilewise.backend.llvm.compile.relocation import RULES, Unknown

_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p)


def fetch(expression: Expression, arrived: Arrived) -> None:
    """Hand the code of an expression over: now, later, or never where there can be none."""

    def linked(code: bytes) -> None:
        with contextlib.suppress(Unknown):
            address, owner = linker.linked(code, build.ENTRY)
            function: Any = _SIGNATURE(address)
            function.owner = owner
            arrived(function)

    if RULES is not None:
        with contextlib.suppress(OSError, RuntimeError, Unknown, helper.Ended):
            build.good_code("chain", module(expression), linked)
