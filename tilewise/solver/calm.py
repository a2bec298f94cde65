"""Planning without pauses. Out: a context in which Python does not look for garbage.

A search for garbage goes through everything that is remembered between plans, for tens of milliseconds. Planning leaves
next to no cycles behind, and what there are is found afterwards.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def calm() -> Iterator[None]:
    """No search for garbage within; whether there are any afterwards is as before."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
