"""Saying that a user's function runs on NumPy tiles. In: the reason. Out: one PerformanceWarning per line."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

from tilewise import events
from tilewise.api.functions.purity import Untraceable
from tilewise.array.handle import Array
from tilewise.array.schedule import policy, sites
from tilewise.config import current
from tilewise.errors import FallbackError, PerformanceWarning, message
from tilewise.python.refuse import Refused

CURES = {
    "a branch": "Write branches as np.where(condition, a, b)",
    "math.": "Use NumPy's function of the same purpose, or np.where",
    "isinstance": "Give each type a function of its own",
}

_told: set[tuple[str, str, int, str]] = set()


def name_of(f: Any) -> str:
    """A user's function as messages and plans name it."""
    return str(getattr(f, "__name__", type(f).__name__))


def user_site() -> tuple[str, int]:
    """The user's file and line."""
    return sites.outside(sys._getframe(1))


def warn(
    operator: str, f: Any, error: Untraceable | Refused, arrays: Sequence[Any], what: str = "runs on NumPy tiles"
) -> None:
    """Warn, or refuse, as `config(fallback=...)` says; nothing about little work."""
    ours = [x for x in arrays if type(x) is Array]
    file, line = user_site()
    if events.listeners:
        now = time.perf_counter()
        touched = sum(x.nbytes for x in ours)
        events.emit(events.Event("fallback", f"{operator}({name_of(f)})", now, now, touched, where=f"{file}:{line}"))
    mode = current().fallback
    if mode == "silent" or policy.small(ours):
        return
    if isinstance(error, Refused):
        verb, place, cure = "compile", _place(f, error), error.cure or None
    else:
        verb, place = "trace", error.where
        cure = next((c for start, c in CURES.items() if error.construct.startswith(start)), None)
    where = place or f"{file}:{line}"
    text = message(
        f"{operator} cannot {verb} {name_of(f)} and {what}: it has {error.construct}",
        where=where,
        cure=cure or 'tw.config(fallback="silent") accepts this',
    )
    if mode == "error":
        raise FallbackError(text)
    if (operator, file, line, text) not in _told:
        _told.add((operator, file, line, text))
        warnings.warn_explicit(PerformanceWarning(text), None, file, line)


def warn_again(f: Any, count: int) -> None:
    """Warn that a function is traced over and over."""
    file, line = user_site()
    what = f"jit has traced {name_of(f)} {count} times: for each value of an argument that is no array and no float"
    if current().fallback != "silent" and ("jit", file, line, name_of(f)) not in _told:
        _told.add(("jit", file, line, name_of(f)))
        text = message(what, where=f"{file}:{line}", cure="Give what changes as a float, or as an array")
        warnings.warn_explicit(PerformanceWarning(text), None, file, line)


def refusal(f: Any, why: Refused) -> str:
    """Why a function's loops have no native form."""
    where = _place(f, why) or None
    return message(f"jit cannot compile {name_of(f)}: it has {why.construct}", where=where, cure=why.cure or None)


def _place(f: Any, why: Refused) -> str:
    """The user's file and line of what has no native form."""
    file = why.file or getattr(getattr(f, "__code__", None), "co_filename", "")
    return f"{file}:{why.line}" if why.line and file else ""


def warn_plain(f: Any, why: Refused) -> None:
    """Warn, once, that a function with loops runs as plain Python; or refuse, as `config(fallback=...)` says."""
    mode = current().fallback
    if mode == "silent":
        return
    text = refusal(f, why)
    if mode == "error":
        raise FallbackError(text)
    file, line = user_site()
    if ("loops", "", 0, text) not in _told:
        _told.add(("loops", "", 0, text))
        warnings.warn_explicit(PerformanceWarning(f"{text} It runs as plain Python."), None, file, line)
