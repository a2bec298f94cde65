"""A call like the last one. In: arguments. Out: the results, if they lie as those of the last call did.

Finding the plan and the replay (backend/base.py) of a call takes longer than running it on a thousand numbers. Most
calls are like the one before: then what was found there is right again, and only that has to be seen. Calls on large
arrays are deferred (array/schedule/deferred.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise import events
from tilewise.api.functions.guards import Guards
from tilewise.api.functions.purity import Untraceable
from tilewise.array.arithmetic import strict_errors
from tilewise.array.cell import LOCK
from tilewise.array.evaluation.commit import conform
from tilewise.array.handle import Array
from tilewise.array.session import on_workers, session_here, unlimited_memory
from tilewise.backend.base import Replay, Unfit
from tilewise.config import current

MISSED = object()
_ARRAYS = (Array, np.ndarray)


class CachedCall:
    """A call that went through a line, or was deferred, with all that its plan hung on."""

    __slots__ = (
        "_arrays", "_blank", "_count", "_line", "_numbers", "_others", "_plan", "_settings", "_single",
        "_watch",
    )  # fmt: skip

    def __init__(self, plan: Any, line: Replay | None, watch: Guards, args: Sequence[Any]) -> None:
        self._plan, self._line, self._watch, self._settings, self._count = plan, line, watch, current(), len(args)
        places = dict(zip(plan.where, plan.places, strict=True))
        self._blank = [*plan.blank, None]  # the last takes arguments that nothing reads
        # of arrays, which argument they are, where they go, and how they lie; of others, the class and the object
        self._arrays: list[tuple[int, Any, int, Any, Any, Any]] = []
        self._others: list[tuple[int, Any, Any]] = []
        for i, a in enumerate(args):
            if type(a) in _ARRAYS:
                nd: Any = a._nd if type(a) is Array else a
                at = -1 if places[i] is None else places[i]
                self._arrays.append((i, type(a), at, nd.shape, nd.strides, nd.dtype))
            else:
                self._others.append((i, type(a), a))
        self._numbers = bool(plan.numbers)
        self._single = plan.outs[0] if plan.structure is None and len(plan.outs) == 1 else None

    def run(self, watch: Guards | None, args: Sequence[Any]) -> Any:
        """The results, or MISSED: another kind of call."""
        if watch is not self._watch or len(args) != self._count:
            return MISSED
        values = self._blank.copy()
        given: list[Any] = []
        a: Any
        for i, kind, at, shape, strides, dtype in self._arrays:
            nd = a = args[i]
            if type(a) is not kind:
                return MISSED
            if kind is Array:
                cell = a._cell
                if cell.node is not None or a._gen != cell.gen or a._fixed:
                    return MISSED
                nd = a._nd
            if nd.shape != shape or nd.strides != strides or nd.dtype is not dtype:
                return MISSED
            values[at] = nd
            given.append(a)
        for i, kind, value in self._others:
            a = args[i]
            if a is not value and (type(a) is not kind or (kind is not float and (kind is not int or a != value))):
                return MISSED
        if len(given) > 1 and len({*map(id, given)}) < len(given):
            return MISSED  # what is the same array twice has a plan of its own
        settings = current()
        if settings is not self._settings or strict_errors() or events.listeners or not watch.holds():
            return MISSED
        session = session_here()
        if session is not None and session.cluster is not None:
            return MISSED
        plan, line = self._plan, self._line
        try:
            if line is None:
                if not unlimited_memory():
                    return MISSED
                numbers = plan.numbers.values([args[i] for i in plan.floats]) if self._numbers else {}
                return plan.fill(plan.defer(given, numbers), given)
            if self._numbers:
                for node, number in plan.numbers.values([args[i] for i in plan.floats]).items():
                    if node in plan.at:
                        values[plan.at[node]] = node.dtype.type(number)
            with LOCK:
                line.run(values)
                if self._single is not None:  # as `made` does it, in half of the time
                    at, root, fixed, first = self._single
                    value = values[at]
                    values.clear()
                    return plan.wrap(conform(value, root, first), fixed)
                return plan.fill(plan.wrapped(plan.made(values)), given)
        except (Unfit, Untraceable):
            return MISSED


def cached_call(plan: Any, watch: Guards, args: Sequence[Any]) -> CachedCall | None:
    """A call of a plan as one to be made again, if such calls go through a line."""
    if any(type(a) is Array and a._fixed for a in args) or on_workers():
        return None
    if any(type(a) is float and i not in plan.floats for i, a in enumerate(args)):
        return None  # the function looks at it
    arrays = [args[i] for i in plan.where]
    if len({*map(id, arrays)}) < len(arrays):
        return None
    if plan.defers(arrays):
        return CachedCall(plan, None, watch, args)
    line = plan.line_for(arrays)
    return None if line is None else CachedCall(plan, line, watch, args)
