"""What calls through Python keep beside a running program. In: exceptions, objects. Out: the same, in this thread.

Compiled code cannot carry an exception, nor a generator of random numbers: they wait here.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np

GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)


class Surprise(Exception):
    """A result of another type than the samples had."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.objects: list[Any] = []


LOCAL = _Local()


def outside(tb: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of ours that it begins with."""
    while tb is not None and "tilewise" in tb.tb_frame.f_globals.get("__name__", "").split("."):
        tb = tb.tb_next
    return tb


@contextmanager
def frame(objects: list[Any]) -> Iterator[None]:
    """The objects of a call."""
    kept, LOCAL.objects = LOCAL.objects, objects
    try:
        yield
    finally:
        LOCAL.objects = kept


def keep_object(at: int, found: Any) -> None:
    """Put an object into the table of the call."""
    LOCAL.objects[at] = found
