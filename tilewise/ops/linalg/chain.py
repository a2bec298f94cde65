"""A product of three matrices in the cheaper order. In: nodes a, b, c. Out: a node with NumPy's value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Mesh
from tilewise.ops.traits.rule import Options, Rule, by_letters, specific
from tilewise.records import dataclass

ND = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Chain(Op):
    """The product of a matrix b with matrices or vectors a and c, written as (a @ b) @ c or (`right`) a @ (b @ c).

    It is computed in the other order, which rounds in other places. Where the two could differ by more than that (what
    is not finite, what overflows or vanishes on the way), it is computed as it is written.
    """

    right: bool
    name = "chain"

    @property
    def signature(self) -> Any:
        return self

    def numpy(self, *arrays: Any) -> Any:
        a, b, c = arrays
        between = a @ b if self.right else b @ c
        made = between @ c if self.right else a @ between
        if np.isfinite(between).all() and np.isfinite(made).all() and self._harmless(a, b, c):
            return made
        return a @ (b @ c) if self.right else (a @ b) @ c

    def _harmless(self, a: ND, b: ND, c: ND) -> bool:
        """Whether the product as written does not overflow, nor either order lose what is too small for a float."""
        if 0 in (a.size, b.size, c.size):
            return True
        limits = np.finfo(a.dtype)
        inner = float(b.shape[0] * b.shape[1])
        first, last = _peak(a), _peak(c)
        written = _peak(b) * (last if self.right else first) * inner
        lost = max(first, last) * inner * float(limits.smallest_subnormal)
        return written < float(limits.max) and lost < float(limits.smallest_normal)

    def label(self) -> str:
        return "(a @ b) @ c" if self.right else "a @ (b @ c)"


def _peak(x: ND) -> float:
    return max(float(x.max()), -float(x.min()))


def chain(a: Node, b: Node, c: Node, right: bool) -> Node:
    """The node of a product of three, written as a @ (b @ c) (`right`) or (a @ b) @ c."""
    return intern(Chain(right), (a, b, c), (*a.shape[:-1], *c.shape[1:]), a.dtype)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Chain)
def _(op: Chain, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    a, _, c = node.inputs
    first, last = "ab"[2 - a.ndim :], "cd"[: c.ndim]
    yield from by_letters([first, "bc", last], first[:-1] + last[1:], node, have, mesh, "add")
