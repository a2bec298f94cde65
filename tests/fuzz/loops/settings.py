"""The settings a case is compiled under. In: a case's number. Out: named contexts.

Every case is run with one thread as it is by default; three threads and each optimisation alone are taken in turn.
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
    return {"1 thread": _config(threads=1), "3 threads": _config(threads=3)}


def settings_of(case: int) -> dict[str, Setting]:
    """The first one, and another in turn."""
    found = all_settings()
    names = list(found)
    chosen = [names[0], names[1 + case % (len(names) - 1)]]
    return {name: found[name] for name in chosen}
