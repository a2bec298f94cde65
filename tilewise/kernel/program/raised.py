"""What was raised while a program ran, until its caller raises it. In: an exception. Out: the same, in this thread."""

from __future__ import annotations

import threading


class _Local(threading.local):
    def __init__(self) -> None:
        self.error: BaseException | None = None


_local = _Local()


def keep(error: BaseException) -> None:
    """Compiled code cannot carry an exception: it waits here."""
    _local.error = error


def take() -> BaseException | None:
    """The exception, once."""
    found, _local.error = _local.error, None
    return found
