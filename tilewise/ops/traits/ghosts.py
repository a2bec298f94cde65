"""Ghosts that are computed, not exchanged. In: an operator, cuts of its result and operands. Out: how many it can do.

A block may compute some of its neighbours' elements again instead of waiting for them, if its operands have enough
ghosts. Operators that can register both functions beside their class; for all others a halo has to be exchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tilewise.ir.node import Node, Op
from tilewise.layout import Cuts, Ghosts, Layout, Shard

NO_GHOSTS: Ghosts = (0, 0)
MANY = 1 << 40  # ghosts: as many as there are elements


@functools.singledispatch
def ghosts_needed(op: Op, node: Node, out: Shard, ins: Sequence[Layout]) -> list[Ghosts] | None:
    """Per operand, the ghosts it needs so that the result can be computed with those of `out`; None: it cannot."""
    return None


@functools.singledispatch
def ghosts_made(op: Op, node: Node, out: Shard, ins: Sequence[Layout]) -> tuple[Ghosts, list[Ghosts]]:
    """The most ghosts that the result can have where operands lie so (at least those of `out`); those it then reads."""
    raise AssertionError(f"{op.name} computes no ghosts")


def most(a: Ghosts, b: Ghosts) -> Ghosts:
    return max(a[0], b[0]), max(a[1], b[1])


def least(a: Ghosts, b: Ghosts) -> Ghosts:
    return min(a[0], b[0]), min(a[1], b[1])


def window_needs(base: Cuts, part: Cuts, start: int, ghosts: Ghosts) -> Ghosts:
    """Ghosts of a base cut at `base`, so that base[start:][:part[-1]], cut at `part`, can have these."""
    low = high = 0
    for j in range(len(base) - 1):
        low = max(low, base[j] - start - max(part[j] - ghosts[0], 0))
        high = max(high, min(part[j + 1] + ghosts[1], part[-1]) + start - base[j + 1])
    return low, high


def window_has(base: Shard, part: Cuts, start: int) -> Ghosts:
    """The most ghosts that base[start:][:part[-1]], cut at `part`, has within what blocks of the base hold."""
    low = high = MANY
    for j in range(len(part) - 1):
        first, last = base.held(j)
        if first > start:
            low = min(low, part[j] + start - first)
        if last < part[-1] + start:
            high = min(high, last - start - part[j + 1])
    return low, high


def value_needs(base: Cuts, part: Cuts, start: int, ghosts: Ghosts) -> Ghosts:
    """Ghosts of a value cut at `part` and written to base[start:][:part[-1]], so that the base is right with these."""
    low = high = 0
    for j in range(len(base) - 1):
        low = max(low, part[j] - max(base[j] - ghosts[0] - start, 0))
        high = max(high, min(base[j + 1] + ghosts[1] - start, part[-1]) - part[j + 1])
    return low, high
