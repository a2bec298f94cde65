"""Exceptions of compiled programs. In: a fault, its numbers. Out: what Python would raise, from the user's line."""

from __future__ import annotations

import builtins
import math
import operator
import struct
from collections.abc import Sequence
from functools import lru_cache, partial
from types import CodeType
from typing import NoReturn

import numpy as np

from tilewise.kernel.program.ir import CALL, RERUN, Fault


def reruns(fault: Fault) -> bool:
    """Whether a fault says that Python must do it: a result does not fit, or a Python function raises."""
    return fault.error == RERUN or fault.error.startswith(CALL)


def raise_fault(
    fault: Fault, payload: Sequence[int], file: str, name: str, qualified: str, raised: BaseException | None = None
) -> NoReturn:
    """Raise what a fault is, from its line (or what a function it called has raised).

    file, name: of the function that the program was made of.
    """
    if raised is not None:
        pass
    elif reruns(fault):
        raised = _too_late(fault, payload)
    else:
        text = fault.message.format(*payload)
        raised = getattr(builtins, fault.error)(*([text] if text else []))
    names = (fault.function, fault.function) if fault.function else (name, qualified)
    exec(_raiser(fault.file or file, fault.line, *names), {"error": raised})
    raise AssertionError


def _too_late(fault: Fault, payload: Sequence[int]) -> BaseException:
    """What is raised where Python cannot begin anew, as arguments have been written to."""
    if fault.error.startswith(CALL):
        name = fault.error.removeprefix(CALL)
        f = {"int": int, "float_power": operator.pow}.get(name) or getattr(math, name)
        if name == "int" and fault.message:  # an element of this dtype
            f = partial(np.zeros(1, fault.message).__setitem__, 0)
        operands = struct.unpack("<2d", struct.pack("<2q", *(*payload, 0)[:2]))
        try:
            f(*operands[: 2 if name in ("float_power", "pow", "atan2", "hypot", "fmod", "remainder") else 1])
        except Exception as error:
            return error.with_traceback(None)
        return OverflowError(f"{name} of {operands[0]} is beyond what compiled loops have")
    return (RecursionError if "recursion" in fault.message else OverflowError)(fault.message)


@lru_cache(maxsize=1024)
def _raiser(file: str, line: int, name: str, qualified: str) -> CodeType:
    """Code that raises at a line of the user's."""
    made = compile("\n" * (line - 1) + "raise error", file, "exec")
    return made.replace(co_name=name, co_qualname=qualified)
