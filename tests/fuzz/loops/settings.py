"""The settings a case is compiled under. In: a case's number. Out: named contexts.

Every case is run with one thread; three threads (for every loop that may have them, however short), the interpreter of
the loop language, programs in parts and those without the passes that change them are taken in turn. A compiler with
more settings adds them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import tilewise as tw
from tilewise import tuning
from tilewise.backend.llvm.program import outline
from tilewise.kernel.program.optimise import NAMES

Setting = Callable[[], AbstractContextManager[Any]]


def _config(**values: Any) -> Setting:
    return lambda: tw.config(fallback="silent", **values)


@contextmanager
def _eager_threads() -> Iterator[None]:
    with tw.config(fallback="silent", threads=3), tuning.using(replace(tuning.tuned(), loop_share_units=-1)):
        yield


@contextmanager
def _in_parts() -> Iterator[None]:
    """As long programs are compiled, however short they are."""
    kept = outline.LONG, outline.PART
    outline.LONG, outline.PART = 1, 6
    try:
        with _eager_threads():
            yield
    finally:
        outline.LONG, outline.PART = kept


def all_settings() -> dict[str, Setting]:
    """Every setting there is."""
    return {
        "1 thread": _config(threads=1),
        "3 threads": _eager_threads,
        "in parts": _in_parts,
        "interpreted": _config(threads=1, native=False),
        "without passes": _config(threads=1, without=",".join(NAMES)),
    }


def settings_of(case: int) -> dict[str, Setting]:
    """The first one, and another in turn."""
    found = all_settings()
    names = list(found)
    chosen = [names[0], names[1 + case % (len(names) - 1)]]
    return {name: found[name] for name in chosen}
