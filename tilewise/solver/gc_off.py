"""Plan with the cyclic garbage collector off. Out: a context manager.

A collection walks everything that is cached between plans, which takes tens of milliseconds. Planning leaves next to no
cycles behind; those it leaves are collected afterwards.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_off() -> Iterator[None]:
    """Turn the collector off inside, and back to what it was afterwards."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
