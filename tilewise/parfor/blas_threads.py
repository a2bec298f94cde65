"""How many threads BLAS may use while a loop runs. In: a number.

Out: the libraries that NumPy and SciPy have loaded, limited.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

_NAMES = (
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
)


@cache
def _controls() -> list[tuple[Callable[[int], Any], Callable[[], int]]]:
    """How to set and get the threads of each BLAS in this process; none where that cannot be found out."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    found = []
    for path in sorted(set(re.findall(r"(/\S*openblas\S*\.so\S*)", maps))):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(path)
            for name in _NAMES:
                put = getattr(library, name.format("set"), None)
                get = getattr(library, name.format("get"), None)
                if put is not None and get is not None:
                    found.append((put, get))
                    break
    return found


def find_libraries() -> None:
    """Look for the libraries of this process now; processes that are forked later know them."""
    _controls()


@contextlib.contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Inside, BLAS uses at most so many threads.

    >>> with blas_threads(1):
    ...     pass
    """
    before = [(put, get()) for put, get in _controls()]
    for put, threads in before:
        put(min(threads, count))
    try:
        yield
    finally:
        for put, threads in before:
            put(threads)
