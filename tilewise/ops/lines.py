"""NumPy's functions of the lines along an axis. In: an array. Out: what the function makes of each line.

The axis is not cut; along all others each block does its own lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Mesh
from tilewise.ops.traits.rule import LETTERS, Options, Rule, by_letters, specific
from tilewise.ops.traits.work import Work, work
from tilewise.records import dataclass


@dataclass(frozen=True)
class Numbers:
    """An array of numbers, as an argument that can be compared."""

    data: bytes
    dtype: str
    shape: tuple[int, ...]

    @staticmethod
    def of(x: Any) -> Numbers:
        nd = np.ascontiguousarray(x)
        return Numbers(nd.tobytes(), nd.dtype.str, np.shape(x))

    def array(self) -> np.ndarray[Any, Any]:
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Lines(Op):
    """np.<fn>(x, ..., axis=axis): the axes it makes come first, and those of the array without `axis` after them."""

    fn: str
    axis: int
    options: tuple[tuple[str, Any], ...]
    made: int  # how many axes it makes
    kind: str = ""  # the dtype of the result, which for NumPy may depend on the elements (nanquantile of only nan)
    name = "lines"

    def numpy(self, *arrays: Any) -> Any:
        given = {k: v.array() if isinstance(v, Numbers) else v for k, v in self.options}
        found = getattr(np, self.fn)(arrays[0], axis=self.axis, **given)
        return np.asarray(found).astype(self.kind, copy=False) if self.kind else found

    def label(self) -> str:
        return f"{self.fn}[{self.axis}]"


def lines(node: Node, fn: str, axis: int, of_one: Any = None, **options: Any) -> Node:
    """The node of a function of lines. NumPy says of one element what it gives, and what is wrong with the options,
    unless that is known: `of_one` is what a line with one element gives.
    """
    given = tuple((k, Numbers.of(v) if isinstance(v, np.ndarray) else v) for k, v in options.items())
    if of_one is None:
        one = np.asarray(Lines(fn, axis, given, 0).numpy(np.ones((1,) * node.ndim, node.dtype)))
        made = one.shape[: one.ndim - node.ndim + 1]
    else:
        one = np.asarray(of_one)
        made = one.shape
    rest = tuple(n for a, n in enumerate(node.dims) if a != axis)
    return intern(Lines(fn, axis, given, len(made), one.dtype.str), (node,), (*made, *rest), one.dtype)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Lines)
def _(op: Lines, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    ndim = node.inputs[0].ndim
    term = LETTERS[:ndim]
    out = LETTERS[ndim : ndim + op.made] + term[: op.axis] + term[op.axis + 1 :]
    yield from by_letters([term], out, node, have, mesh, pieces=True)


@work.register(Lines)
def _(op: Lines, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(compared=math.prod(shapes[0]) * 2)
