"""An operator as one block sees it. In: an operator, the parts of its result and operands there. Out: an operator.

Most operators are the same on every block. Those that carry sizes, offsets or positions of the whole value register
how they change (`on_block`) beside their class. Only plain values come in, so that any plan can ask.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.ir.node import Op
from tilewise.ir.order import Order
from tilewise.layout import Box, Held, Interval, Union, dims
from tilewise.records import dataclass


@dataclass(frozen=True)
class Part:
    """What of a value is in memory at one block, in the coordinates of the whole value."""

    held: Held
    shape: tuple[int, ...]  # of the whole value
    dtype: np.dtype[Any]
    order: Order = None
    block: int = 0  # its number

    @property
    def dims(self) -> tuple[int, ...]:
        """Lengths of the part."""
        return dims(self.held)

    @property
    def box(self) -> Box:
        """The part as one interval per axis: for operators whose rules ask for no other."""
        return tuple([_interval(s) for s in self.held])

    def along(self, axis: int) -> Interval:
        """The part along an axis that is in no pieces."""
        return _interval(self.held[axis])

    @property
    def whole(self) -> bool:
        """Whether the block has all of the value."""
        return self.dims == self.shape


def _interval(s: Interval | Union) -> Interval:
    assert not isinstance(s, Union), "an operator that knows where its block lies has no block in pieces"
    return s


@functools.singledispatch
def on_block(op: Op, out: Part, ins: Sequence[Part]) -> Op:
    """The operator that makes the block's part of the result from the block's parts of the operands."""
    return op


def same_on_blocks(op: Op) -> bool:
    """Whether an operator is the same on every block: then nobody need work out where the block's operands lie."""
    return on_block.dispatch(type(op)) is on_block.dispatch(object)
