"""The object file of a module that a thread waits for. In: a module. Out: its code, from disk or compiled.

Where it is not on disk, the compiler's process makes it, while the program goes on.
"""

from __future__ import annotations

import threading
from functools import cache

from tilewise.backend.llvm.compile import build

PATIENCE_S = 60.0  # for the compiler's process


@cache
def code(kind: str, text: str) -> bytes:
    """The object file. Raises OSError, RuntimeError or helper.Ended where there can be none."""
    good: list[bytes] = []
    there = threading.Event()

    def arrived(code: bytes) -> None:
        good.append(code)
        there.set()

    build.good_code(kind, text, arrived)
    if not there.wait(PATIENCE_S):
        raise OSError("no answer of the compiler's process")
    return good[0]
