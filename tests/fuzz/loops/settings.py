"""The settings a case is compiled under. In: a case's number. Out: named contexts.

Every case is run with one thread; three threads and the interpreter of the loop language are taken in turn. A compiler
with more settings adds them here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import tilewise as tw

Setting = Callable[[], AbstractContextManager[Any]]


def _config(**values: Any) -> Setting:
    return lambda: tw.config(fallback="silent", **values)


def all_settings() -> dict[str, Setting]:
    """Every setting there is."""
    return {
        "1 thread": _config(threads=1),
        "3 threads": _config(threads=3),
        "interpreted": _config(threads=1, native=False),
    }


def settings_of(case: int) -> dict[str, Setting]:
    """The first one, and another in turn."""
    found = all_settings()
    names = list(found)
    chosen = [names[0], names[1 + case % (len(names) - 1)]]
    return {name: found[name] for name in chosen}
