"""Calls of other libraries. In: NumPy or Tilewise as `np`, arrays of it. Out: what the library makes of them.

Each is run with NumPy and with Tilewise, and must give the same (test_neighbours.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = Callable[..., Any]
CALLS: dict[str, tuple[str, Call]] = {}  # by name: the library that it needs, and the call


def needs(library: str = "") -> Callable[[Call], Call]:
    """Enter a call."""

    def enter(call: Call) -> Call:
        CALLS[call.__name__] = library, call
        return call

    return enter
