"""How many elements masks will keep, or are different, before they are counted. In: nodes. Out: numbers, and how known.

A mask of elementwise work on arrays at hand is looked at in some places; of others, what the same line kept the last
time is taken; of the rest, all. What runs does not rely on it: masks are counted before what they select is planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from tilewise.ir.node import Length, Node, walk
from tilewise.ops.const import Const
from tilewise.ops.create import Full
from tilewise.ops.elementwise import Map
from tilewise.ops.join import Broadcast
from tilewise.ops.views import Window, explain
from tilewise.records import dataclass

SAMPLE = 4096  # places of a mask that are looked at
MOST_NODES = 100  # of a mask's graph

Places = tuple[Any, ...]


@dataclass(frozen=True)
class Expected:
    """What a mask is thought to keep."""

    length: Length
    number: int
    how: str  # "counted", "sampled", "as last time" or "at most"

    def __str__(self) -> str:
        about = {"sampled": "about ", "at most": "at most ", "as last time": "about "}.get(self.how, "")
        how = f" ({self.how})" if self.how in ("sampled", "as last time") else ""
        return f"{about}{self.number:,} of {prod(self.length.mask.dims):,}{how}"


@contextmanager
def expecting(nodes: Sequence[Node], share: float | None = None) -> Iterator[list[Expected]]:
    """Lengths that masks will decide stand at what is expected of them; or, unless counted, at a share of the most."""
    found: list[Expected] = []
    try:
        for d in dict.fromkeys(d for n in nodes for d in n.shape if type(d) is Length and d.value is None):
            found.append(_expect(d))
            d.value = found[-1].number
            if share is not None and found[-1].how != "counted":
                d.value = round(share * prod(d.mask.dims))
        yield found
    finally:
        for e in found:
            e.length.value = None


def _expect(length: Length) -> Expected:
    mask = length.mask
    size = prod(mask.dims)
    if not size:
        return Expected(length, 0, "counted")
    places = _places(size)
    seen = _look(mask, np.unravel_index(places, mask.dims)) if len(walk([mask])) <= MOST_NODES else None
    if seen is not None:
        share = float(np.count_nonzero(np.broadcast_to(seen, places.shape))) / places.size
        length.note(share)
        return Expected(length, round(share * size), "counted" if places.size == size else "sampled")
    last = length.last_share()
    return Expected(length, size, "at most") if last is None else Expected(length, round(last * size), "as last time")


def different(n: Node) -> int:
    """About how many different elements an array has that can be looked at, as a power of two; 0 for others.

    By Chao's estimate, from those that a sample has once and twice. The same data give the same number, and those that
    are much like them: plans are chosen by it, so it depends on nothing else.
    """
    size = prod(n.dims) if n.known else 0
    if not size or n.dtype.kind not in "biuf" or len(walk([n])) > MOST_NODES:
        return 0
    places = _places(size)
    seen = _look(n, np.unravel_index(places, n.dims))
    if seen is None:
        return 0
    times = np.unique(np.broadcast_to(seen, places.shape), return_counts=True)[1]
    number = int(times.size)
    if places.size < size:
        once, twice = int(np.count_nonzero(times == 1)), int(np.count_nonzero(times == 2))
        number += once * (once - 1) // (2 * (twice + 1))
    return 1 << (min(number, size) - 1).bit_length()


def _places(size: int) -> np.ndarray[Any, Any]:
    """Places to look at: all, or one in each of as many equal parts, the same at every call."""
    if size <= SAMPLE:
        return np.arange(size)
    cuts = np.linspace(0, size, SAMPLE + 1).astype(np.int64)
    return np.random.default_rng(SAMPLE).integers(cuts[:-1], cuts[1:])


def _look(n: Node, places: Places) -> Any:
    """An array's elements in some places (an index per axis); None if that takes more than elementwise work.

    Values that workers hold are not looked at: nothing moves before it is announced.
    """
    op = n.op
    if n.value is not None:
        return n.value[places] if isinstance(n.value, np.ndarray) else None
    if type(op) is Const:
        return op.value
    if type(op) is Map:
        parts = [_look(x, _along(x, places)) for x in n.inputs]
        if any(p is None for p in parts):
            return None
        with np.errstate(all="ignore"):
            return op.numpy(*parts)
    if type(op) is Full or type(op) is Broadcast:
        return _look(n.inputs[0], _along(n.inputs[0], places))
    seen = explain(op) if type(op) is Window else None
    if seen is None:
        return None
    axes, starts = seen
    inner: list[Any] = list(starts)
    for a, p in zip(axes, places, strict=True):
        if a.base is not None:
            inner[a.base] = a.start + a.step * p
    return _look(n.inputs[0], tuple(inner))


def _along(x: Node, places: Places) -> Places:
    """Places in an operand that is broadcast."""
    own = places[len(places) - x.ndim :]
    return tuple(0 if d == 1 else p for d, p in zip(x.dims, own, strict=True))
