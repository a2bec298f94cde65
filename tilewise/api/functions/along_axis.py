"""np.apply_along_axis. In: a function of lines, an array. Out: what it makes of every line along an axis.

Where workers hold the array, and the function depends on its argument only, each block's lines are done where they
are; it is called once before, with the first line, which says what it gives (as NumPy does it). Otherwise NumPy's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tilewise.api.dispatch import implements, public
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.interop.elsewhere import in_blocks
from tilewise.later import later
from tilewise.ops.traits.rule import LETTERS
from tilewise.ops.user import Opaque, opaque
from tilewise.records import dataclass

if TYPE_CHECKING:
    from tilewise.api.functions import purity, warn
    from tilewise.api.functions.trace import scalar_trace
else:  # for workers only
    purity, warn = later("tilewise.api.functions.purity"), later("tilewise.api.functions.warn")
    scalar_trace = later("tilewise.api.functions.trace.scalar_trace")


@dataclass(frozen=True)
class EachLine:
    """A function of every line along the last axis of a block."""

    f: Any
    shape: tuple[int, ...]  # of what it gives
    dtype: np.dtype[Any]

    def __call__(self, block: Any) -> Any:
        out = np.zeros((*block.shape[:-1], *self.shape), self.dtype)
        for at in np.ndindex(block.shape[:-1]):
            out[at] = np.asarray(self.f(block[(*at, ...)]))
        return out


@implements(np.apply_along_axis)
def apply_along_axis(func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of every line."""
    if not in_blocks(arr):
        return rec.at_once(np.apply_along_axis, (func1d, axis, arr, *args), kwargs)
    if type(arr) is not Array or arr.ndim < 2 or not arr.size or args or kwargs:
        return NotImplemented
    try:
        key = scalar_trace.key_of(func1d)
    except purity.Untraceable:
        return NotImplemented  # it may do more than give a result
    at = normalize_axis_index(axis, arr.ndim)
    rest = tuple(k for k in range(arr.ndim) if k != at)
    lines: Any = public(np.transpose)(arr, (*rest, at))
    line = forcing.fetch(lines[(0,) * len(rest)]).copy()
    first = np.asarray(rec.unwrap(func1d(line)))
    if not rec.numeric(first.dtype):
        return NotImplemented
    run = EachLine(func1d, first.shape, first.dtype)
    term, made = LETTERS[: arr.ndim], LETTERS[arr.ndim : arr.ndim + first.ndim]
    op = Opaque(run, ("lines", key, first.shape, first.dtype.str), f"{term}->{term[:-1]}{made}", None, _text(func1d))
    shape = (*lines.shape[:-1], *first.shape)
    found = rec.record(opaque(op, (rec.as_node(lines),), shape, first.dtype))
    outer, inner = list(range(len(rest))), list(range(len(rest), len(shape)))
    return public(np.transpose)(found, (*outer[:at], *inner, *outer[at:]))


def _text(f: Any) -> str:
    return f"apply_along_axis with {warn.name_of(f)}"
