"""Who has which rows. In: indices, the cuts of a base. Out: indices from the front, and the owners of each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tilewise.layout import Shard
from tilewise.ops.collectives import ND, CollectiveCall, Parts, worker_cuts


def from_front(index: ND, length: int, axis: int) -> ND:
    """Indices that count from the front; NumPy's error if one is out of range."""
    wide = index.astype(np.int64)
    bad = (wide < -length) | (wide >= length)
    if bad.any():
        raise IndexError(f"index {wide[bad][0]} is out of bounds for axis {axis} with size {length}")
    return np.where(wide < 0, wide + length, wide)


def by_owner(call: CollectiveCall, rows: ND) -> list[slice]:
    """For sorted rows of the base (the first operand): the run that each worker owns."""
    layout = call.ins[0].layout
    assert isinstance(layout, Shard)
    ends = np.searchsorted(rows, worker_cuts(layout.cuts, call.mesh)).tolist()
    return [slice(lo, hi) for lo, hi in pairwise(ends)]


def taken(call: CollectiveCall, blocks: Parts, rows: ND) -> ND:
    """Some of the worker's own rows of the base, sorted."""
    layout = call.ins[0].layout
    assert isinstance(layout, Shard)
    parts: list[Any] = []
    for b, x in sorted(blocks.items()):
        low, high = layout.owned(b)
        first, last = np.searchsorted(rows, (low, high))
        parts.append(np.take(x, rows[first:last] - low, axis=layout.axis))
    return np.concatenate(parts, axis=layout.axis)
