"""Functions that look every element up in tables. In: elements, tables. Out: what was found, element by element.

The tables go to every worker, the elements stay. Where it is the table that is long, each worker counts in its own part
of it: a position in a sorted table is the sum of the positions in its parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Mesh, Partial, Shard
from tilewise.ops.traits.rule import LETTERS, WHOLE, Options, Rule, axis_cuts, by_letters, specific
from tilewise.ops.traits.work import Work, work


@dataclass(frozen=True)
class Lookup(Op):
    """A NumPy function of elements (the first operand) and tables; `options` are its other arguments."""

    fn: str
    options: tuple[tuple[str, Any], ...] = ()
    name = "lookup"

    def numpy(self, *arrays: Any) -> Any:
        function = getattr(np, self.fn)
        given = (arrays[1], arrays[0]) if self.fn == "searchsorted" else arrays
        return function(*given, **dict(self.options))

    def label(self) -> str:
        return self.fn


def lookup(
    fn: str, elements: Node, tables: Sequence[Node], dtype: np.dtype[Any], options: tuple[tuple[str, Any], ...] = ()
) -> Node:
    """The node of a function of elements."""
    return intern(Lookup(fn, options), (elements, *tables), elements.shape, dtype)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register
def _(op: Lookup, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    letters = LETTERS[: node.ndim]
    rest = iter(LETTERS[node.ndim :])
    terms = [letters, *("".join(next(rest) for _ in range(x.ndim)) for x in node.inputs[1:])]
    yield from by_letters(terms, letters, node, have, mesh, pieces=True)
    table = node.inputs[1]
    if op.fn == "searchsorted" and table.shape[0] >= 2:
        for cuts in axis_cuts(have[1], 0, table.shape[0], mesh):
            yield Rule((WHOLE, Shard(0, cuts)), Partial("add"))


@work.register
def _(op: Lookup, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(compared=size * math.log2(max(math.prod(shapes[1]), 2)))
