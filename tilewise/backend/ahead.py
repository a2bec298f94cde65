"""The backend, opened while the program is busy elsewhere. In: how much is about to be drawn. Out: no wait.

Programs begin by drawing (or reading) what they work on. NumPy's loops let other threads run meanwhile, so a thread
loads the modules of the backend then, reads what the machine has, and starts the compiler's process where it will be
needed; then it loads those who make plans (`also`): 65 ms that the first evaluation does not spend. Small programs,
which need none of this, have no such thread.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from math import prod
from typing import Any

from tilewise.backend import chosen, named
from tilewise.config import current

NUMBER_BYTES = 8
_begun = False
_opened = False
_also: list[Callable[[], object]] = []


def also(load: Callable[[], object]) -> None:
    """Call this, too, once the backend is open."""
    _also.append(load)


def open_ahead(size: Any) -> None:
    """So many numbers (or of such a shape) are going to be drawn."""
    global _begun
    if _begun or not is_large(size):
        return
    _begun = True
    settings = current()
    if settings.engine != "numpy":
        run = contextvars.copy_context().run  # with the settings of here
        threading.Thread(target=run, args=(_open, chosen(settings)), name="tilewise opens its backend").start()


def is_large(size: Any) -> bool:
    """Whether so many numbers are more than what is worked on at once, by NumPy."""
    count = prod(size) if type(size) is tuple and all(type(n) is int for n in size) else size
    return type(count) is int and NUMBER_BYTES * count > current().eager_bytes


def is_open() -> bool:
    """Whether all is loaded: draws of several threads at once would hold that up."""
    return _opened


def _open(name: str) -> None:
    global _opened
    opened = named(name)
    for load in _also:
        load()
    opened.warm_up()
    _opened = True
