"""What the process of workers takes up. In: the limit of their blocks. Out: bytes; idle memory goes back to the system.

`memory=` limits blocks. The process has a share of its own (Python, NumPy, Ray, compiled code), the pieces of the
exchange under way, and what the pool and the C library keep to use again, which goes when the process is too large.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

from tilewise.store import pool

_PAGE = os.sysconf("SC_PAGESIZE") if hasattr(os, "sysconf") else 4096


def resident_bytes() -> int:
    """Memory that this process has in use; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0


class Footprint:
    """A process whose blocks may take up so many bytes (None: any number)."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.own = resident_bytes()  # before it has blocks
        pool.bound(limit)

    def trim(self) -> None:
        """Give idle memory back if the process takes up more than its own share and the limit."""
        if self.limit is not None and resident_bytes() > self.own + self.limit:
            pool.trim()
            with suppress(OSError, AttributeError):  # other C libraries have no such function
                ctypes.CDLL(None).malloc_trim(0)
