"""Functions that are handed to NumPy. In: a function and arguments. Out: its result, announced or refused."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from tilewise import events
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.schedule import policy, sites
from tilewise.array.session import on_workers
from tilewise.config import current
from tilewise.errors import FallbackError, FallbackWarning, message

LARGE_BYTES = 1 << 20  # of an operand that is worth a word if all workers get all of it

_warned: set[tuple[str, str, int]] = set()


def fallback(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None) -> Any:
    """Gather, NumPy, wrap again; says so once per call site, or refuses, as configured."""
    announce(name or str(getattr(func, "__name__", func)), args, kwargs)
    return rec.at_once(func, args, kwargs)


def announce(name: str, args: Any, kwargs: dict[str, Any]) -> None:
    """Say that NumPy does this (once per call site), or refuse, as configured; nothing about little work."""
    arrays: list[Array] = []
    rec.find_arrays(args, arrays)
    rec.find_arrays(kwargs.values(), arrays)
    arrays = [x for x in arrays if rec.numeric(x.dtype)]
    if events.listeners and arrays:
        now = time.perf_counter()
        where_at = "{}:{}".format(*sites.outside(sys._getframe(1)))
        events.emit(events.Event("fallback", name, now, now, sum(x.nbytes for x in arrays), where=where_at))
    if not policy.small(arrays) and arrays:
        size = sum(x.nbytes for x in arrays)
        _say(name, f"{name} has no native version here and runs on NumPy", f"{size:,} bytes to gather")


def announce_whole(name: str, size: int) -> None:
    """The same of work that cannot be cut: every worker gets all of an operand of so many bytes."""
    if size >= LARGE_BYTES and on_workers():
        _say(name, f"{name} is done in one place: every worker gets all of its operand", f"{size:,} bytes")


def _say(name: str, what: str, got: str) -> None:
    """Warn, once per call site, or refuse, as configured."""
    mode = current().fallback
    if mode == "silent":
        return
    where = (name, *sites.outside(sys._getframe(1)))
    cure = 'tw.config(fallback="silent") accepts this'
    text = message(what, got=got, where=f"{where[1]}:{where[2]}", cure=cure)
    if mode == "error":
        raise FallbackError(text)
    if where not in _warned:
        _warned.add(where)
        warnings.warn_explicit(FallbackWarning(text), None, where[1], where[2])
