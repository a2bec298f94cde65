"""Functions of matrices. In: nodes. Out: nodes; their values are NumPy's own.

The letters say what a mesh may cut: stacks of matrices along their leading axes, right-hand sides along their columns.
The matrices themselves are not cut: every worker has them, and does the same (but see cholesky.py and qr.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Mesh, Shard, all_at, bare
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.rule import LETTERS, Rule, by_letters, specific
from tilewise.ops.traits.rule import Options as Choices
from tilewise.ops.traits.work import LAPACK_FLOPS, Work, work
from tilewise.records import dataclass

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Linalg(Op):
    """np.linalg.<fn>. Of its letters, those that operands and result share may be cut."""

    fn: str
    letters: str
    options: Options = ()
    name = "linalg"

    def numpy(self, *arrays: Any) -> Any:
        return getattr(np.linalg, self.fn)(*arrays, **dict(self.options))

    def label(self) -> str:
        return self.fn


@dataclass(frozen=True)
class Packed(Linalg):
    """All results of a function of several, one after the other along the last axis."""

    name = "packed"

    def numpy(self, *arrays: Any) -> Any:
        lead = arrays[0].shape[:-2]
        parts = super().numpy(*arrays)
        return np.concatenate([np.reshape(x, (*lead, math.prod(x.shape[len(lead) :]))) for x in parts], axis=-1)


def of_matrix(
    fn: str, x: Node, tail: tuple[int, ...], dtype: np.dtype[Any], options: Options = (), packed: bool = False
) -> Node:
    """A function of a matrix, or of each of a stack; `tail` is the shape of what it gives for one."""
    lead = LETTERS[: x.ndim - 2]
    letters = f"{lead}YZ->{lead}{'XWV'[: len(tail)]}"
    op = (Packed if packed else Linalg)(fn, letters, options)
    return intern(op, (x,), (*x.shape[:-2], *tail), dtype)


def solve(a: Node, b: Node, dtype: np.dtype[Any]) -> Node:
    """The solution of a x = b; the caller has checked the shapes. A vector is one right-hand side."""
    if b.ndim == 1:
        lead = LETTERS[: a.ndim - 2]
        return intern(Linalg("solve", f"{lead}YZ,Z->{lead}X"), (a, b), a.shape[:-1], dtype)
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    lead = LETTERS[: len(shape)]
    la, lb = lead[len(shape) - (a.ndim - 2) :], lead[len(shape) - (b.ndim - 2) :]
    return intern(Linalg("solve", f"{la}YZ,{lb}ZW->{lead}XW"), (a, b), (*shape, *b.shape[-2:]), dtype)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Linalg)
def _(op: Linalg, node: Node, have: Choices, mesh: Mesh) -> Iterator[Rule]:
    ins, out = op.letters.split("->")
    yield from by_letters(ins.split(","), out, node, have, mesh)
    if len(node.inputs) == 1 and node.ndim and node.size:  # a matrix that one block has is dealt with there
        for p in have[0]:
            if isinstance(p, Shard) and (block := _only_block(p)) is not None:
                yield Rule((bare(p),), Shard(0, all_at(block, node.shape[0], mesh.total_blocks)))


def _only_block(p: Shard) -> int | None:
    """The block that has everything, if one has."""
    full = [b for b, (low, high) in enumerate(pairwise(p.cuts)) if low < high]
    return full[0] if len(full) == 1 and p.cuts[-1] > 1 else None


@dataclass(frozen=True)
class Nothing(Op):
    """What a function of a matrix gives where there is none of it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    name = "nothing"

    def numpy(self, *arrays: Any) -> Any:
        return np.empty(self.shape, self.dtype)


@on_block.register(Linalg)
def _(op: Linalg, out: Part, ins: Sequence[Part]) -> Op:
    return Nothing(out.dims, out.dtype) if 0 in out.dims and 0 not in out.shape else op


@work.register(Linalg)
def _(op: Linalg, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(flops=LAPACK_FLOPS * sum(map(math.prod, shapes)) * shapes[0][-1])
