"""A call like the last one. In: arguments. Out: the results, if they lie as those of the last call did.

Finding the plan and the line (engine/straight.py) of a call takes longer than running it on a thousand numbers. Most
calls are like the one before: then what was found there is right again, and only that has to be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise import events
from tilewise.api.functions.reach import Untraceable
from tilewise.api.functions.watch import Watch
from tilewise.array.arithmetic import strict_errors
from tilewise.array.cell import LOCK
from tilewise.array.handle import Array
from tilewise.array.session import cluster_here
from tilewise.config import current
from tilewise.engine.straight import Line, Unfit

MISSED = object()
_ARRAYS: Any = (Array, np.ndarray)


class Repeat:
    """A call that went through a line, with all that its plan hung on."""

    __slots__ = ("_alone", "_args", "_line", "_plan", "_settings", "_watch")

    def __init__(self, plan: Any, line: Line, watch: Watch, args: Sequence[Any]) -> None:
        self._plan, self._line, self._watch, self._settings = plan, line, watch, current()
        places = dict(zip(plan.where, plan.places, strict=True))
        # of every argument its class; then of an array how it lies and where it goes, of others the object
        self._args = [
            (type(a), nd.shape, nd.strides, nd.dtype, places[i])
            if isinstance(a, _ARRAYS) and (nd := a._nd if type(a) is Array else a) is not None
            else (type(a), a, None, None, None)
            for i, a in enumerate(args)
        ]
        self._alone = len(plan.where) < 2

    def run(self, watch: Watch | None, args: Sequence[Any]) -> Any:
        """The results, or MISSED: another kind of call."""
        if watch is not self._watch or len(args) != len(self._args):
            return MISSED
        plan = self._plan
        values: list[Any] = plan.blank.copy()
        for a, (kind, shape, strides, dtype, at) in zip(args, self._args, strict=True):
            if type(a) is not kind:
                return MISSED
            nd: Any = a
            if kind is Array:
                cell = a._cell
                if cell.node is not None or a._gen != cell.gen or a._fixed:
                    return MISSED
                nd = a._nd
            elif strides is None:
                if a is not shape and kind is not float and (kind is not int or a != shape):
                    return MISSED
                continue
            if nd.shape != shape or nd.strides != strides or nd.dtype is not dtype:
                return MISSED
            if at is not None:
                values[at] = nd
        settings = current()
        if settings is not self._settings or strict_errors() or events.listeners:
            return MISSED
        if cluster_here(settings.blocks)[0] is not None or not watch.holds():
            return MISSED
        arrays = [args[i] for i in plan.where]
        if not self._alone and len({*map(id, arrays)}) < len(arrays):
            return MISSED
        try:
            if plan.used:
                for node, number in plan.numbers([args[i] for i in plan.floats]).items():
                    if node in plan.at:
                        values[plan.at[node]] = node.dtype.type(number)
            with LOCK:
                self._line.run(values)
                return plan.fill(plan.made(values), arrays)
        except (Unfit, Untraceable):
            return MISSED


def repeated(plan: Any, watch: Watch, args: Sequence[Any]) -> Repeat | None:
    """A call of a plan as one to be made again, if such calls go through a line."""
    if any(type(a) is Array and a._fixed for a in args):
        return None
    if any(type(a) is float and i not in plan.floats for i, a in enumerate(args)):
        return None  # the function looks at it
    arrays = [args[i] for i in plan.where]
    line = plan.line_for(arrays) if len({*map(id, arrays)}) == len(arrays) else None
    return None if line is None else Repeat(plan, line, watch, args)
