"""Functions that are handed to NumPy. In: a function and arguments. Out: its result, announced or refused."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewise import events
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.cell import ND
from tilewise.array.handle import Array, meta
from tilewise.array.schedule import policy, sites
from tilewise.array.session import on_workers
from tilewise.config import current
from tilewise.errors import FallbackError, FallbackWarning, message

LARGE_BYTES = 1 << 20  # of an operand that is worth a word if all workers get all of it

_warned: set[tuple[str, str, int]] = set()


def fallback(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None) -> Any:
    """Gather, NumPy, wrap again; says so once per call site, or refuses, as configured."""
    announce(name or str(getattr(func, "__name__", func)), args, kwargs)
    few = tuple(map(_part_here, args))
    if any(a is not b for a, b in zip(few, args, strict=True)):
        try:
            return rec.at_once(func, few, kwargs)
        except ValueError as error:
            if "read-only" not in str(error):  # else it writes into its argument: that must be the array itself
                raise
    return rec.at_once(func, args, kwargs)


def _part_here(x: Any) -> Any:
    """A copy of a part of an array that is on workers, to read, so that the rest may stay; other values as they are.

    Only for functions whose results are new arrays.
    """
    if type(x) is not Array or x._cell.node is None or not on_workers():
        return x
    node = x._cell.node
    if not node.known or 2 * x.nbytes > node.nbytes:
        return x
    part = forcing.fetch(x).view()
    if x._cell.node is None:  # it is here after all
        return x
    if part.flags.forc and not meta(x).flags.forc:
        part = _with_gaps(part)
    part.flags.writeable = False
    return part


def _with_gaps(part: ND) -> ND:
    """A copy in the same order that is not in one piece, as the view that it is of: NumPy's results may lie by that."""
    axes = sorted(range(part.ndim), key=lambda a: -part.strides[a])
    *slow, fast = (part.shape[a] for a in axes)
    copy = np.empty((*slow, fast + 1), part.dtype)[..., :fast].transpose(np.argsort(axes))
    copy[...] = part
    return copy


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
    if size >= LARGE_BYTES:
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
