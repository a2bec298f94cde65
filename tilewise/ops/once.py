"""A whole value as contributions. In: a value that every worker has. Out: the value on one, nothing on the others.

So a function of contributions and of something whole can be pushed down to one contribution: to add a number to a sum
of parts, one worker adds it to its part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.ir.node import Op
from tilewise.ir.reductions import Reduction
from tilewise.ops.traits.block import Part, on_block
from tilewise.records import dataclass


@dataclass(frozen=True)
class Once(Op):
    """The operand where it counts; elsewhere the contribution that changes no other."""

    by: Reduction
    counts: bool = True
    name = "once"

    def numpy(self, *arrays: Any) -> Any:
        (x,) = arrays
        return x if self.counts else np.full(np.shape(x), self.by.neutral(x.dtype), x.dtype)

    def label(self) -> str:
        return "on one worker"


@on_block.register(Once)
def _(op: Once, out: Part, ins: Sequence[Part]) -> Op:
    return replace(op, counts=out.block == 0)
