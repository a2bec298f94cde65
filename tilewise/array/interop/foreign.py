"""Memory that is not ours. In: an ndarray of the user, or a view of one. Out: memory of our own that looks the same."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.array.cell import ND, address, root
from tilewise.array.handle import Array, from_buffer, on_cell
from tilewise.ops.views import strided


def copied(nd: ND) -> Array:
    """A copy that can be written if the array can."""
    own = nd.copy(order="K")
    x = from_buffer(own)
    if not nd.flags.writeable:
        x._nd = own.view()
        x._nd.flags.writeable = False
    return x


def snapshot(base: ND, nd: ND) -> tuple[ND, ND]:
    """A copy of memory, and of it the view that `nd` is of the memory."""
    own = base.copy(order="K")
    view = strided(own, address(nd) - address(base), nd.shape, nd.strides, nd.dtype)
    view.flags.writeable = writeable(nd)
    return own, view


def writeable(nd: ND) -> bool:
    """Whether an array may be written to. NumPy warns who asks this of what `broadcast_arrays` gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nd.flags.writeable


def broadcasts(nd: ND) -> bool:
    """Whether an array shows values again along an axis, which has no stride then."""
    return 0 in nd.strides and any(s == 0 and n > 1 for n, s in zip(nd.shape, nd.strides, strict=True)) and nd.size > 0


def broadcast_copy(nd: ND) -> Array:
    """An array that repeats values as the same view of a copy of them: they have no say in the order of results."""
    part = tuple(slice(1) if s == 0 else slice(None) for s in nd.strides)
    own = nd[part].copy(order="K")
    return on_cell(from_buffer(own)._cell, np.broadcast_to(own, nd.shape))


def made_new(base: ND, foreign: Sequence[Any]) -> bool:
    """Whether memory behind a result was made by the call."""
    flags = base.flags
    if not flags.owndata or not flags.writeable or not flags.forc:
        return False
    return not any(isinstance(f, np.ndarray) and root(f) is base for f in foreign)
