"""A value that only exists if something was selected. In: the value, whether anything was. Out: the value, or an error.

What NumPy refuses of an empty selection (an extreme, a position) is known to workers only: they raise its exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Mesh
from tilewise.ops.traits.rule import LETTERS, Options, Rule, by_letters, specific
from tilewise.records import dataclass


@dataclass(frozen=True)
class Some(Op):
    """The first operand if the second, a truth value, holds; else a ValueError."""

    refusal: str
    name = "some"

    def numpy(self, *arrays: Any) -> Any:
        value, there = arrays
        if not there:
            raise ValueError(self.refusal)
        return np.array(value)


def some(value: Node, there: Node, refusal: str) -> Node:
    """`value`, or where nothing is there NumPy's complaint."""
    return intern(Some(refusal), (value, there), value.shape, value.dtype, value.order)


@specific.register(Some)
def _(op: Some, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    yield from by_letters([term, ""], term, node, have, mesh, pieces=True)
