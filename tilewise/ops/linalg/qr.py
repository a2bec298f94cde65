"""QR of tall matrices, and what follows from it. In: a node. Out: a node of factors; on a mesh, a tall-skinny QR.

R (n x n) and Q (m x n) are one value, n + m rows, so that one factorisation gives both. Cut along rows: every block is
factored where it lies, the small Rs are factored together in the first block, and what that says about each block's Q
goes back to it. Only n x n pieces move. Singular values and a pseudoinverse follow from R and a product with Q, which
the first block makes part of what it sends back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Cuts, Layout, Mesh, Shard
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.rule import LETTERS, Options, Rule, axis_cuts, by_letters, inner_exchanges, specific
from tilewise.ops.traits.work import Work, work
from tilewise.records import dataclass

ND = np.ndarray[Any, Any]
QR_FLOPS = 16  # per element and column: 4 for R and Q, at a quarter of the rate of a matrix product


@dataclass(frozen=True)
class Qr(Op):
    """R above Q, of matrices with at least as many rows as columns; or (`only_r`) R alone."""

    only_r: bool
    name = "qr"

    def numpy(self, *arrays: Any) -> Any:
        if self.only_r:
            return np.linalg.qr(arrays[0], "r")
        q, r = np.linalg.qr(arrays[0])
        return np.concatenate([r, q], axis=-2)


def qr(node: Node, only_r: bool, dtype: np.dtype[Any]) -> Node:
    """The node of a factorisation."""
    *lead, m, n = node.shape
    return intern(Qr(only_r), (node,), (*lead, n if only_r else n + m, n), dtype)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TallSvd(Qr):
    """V^H above the singular values above U, of a matrix with more rows than columns."""

    name = "svd"

    def numpy(self, *arrays: Any) -> Any:
        u, s, vh = np.linalg.svd(arrays[0], full_matrices=False)
        return np.concatenate([vh, s[None].astype(vh.dtype), u])


@dataclass(frozen=True)
class TallPinv(Qr):
    """The conjugate transpose of the pseudoinverse, of a matrix with more rows than columns."""

    name = "pinv"

    def numpy(self, *arrays: Any) -> Any:
        return np.linalg.pinv(arrays[0]).conj().T


def follows(op: Qr, r: ND) -> tuple[ND, ND | None]:
    """What stands above the rows of a result, and the factor that Q is multiplied by."""
    if isinstance(op, TallSvd):
        u, s, vh = np.linalg.svd(r)
        return np.concatenate([vh, s[None].astype(vh.dtype)]), u
    if isinstance(op, TallPinv):
        return r[:0], np.linalg.pinv(r).conj().T
    return r, None


def head_rows(op: Qr, n: int) -> int:
    """How many rows stand above."""
    return 0 if isinstance(op, TallPinv) else n + isinstance(op, TallSvd)


def tall_svd(node: Node, dtype: np.dtype[Any]) -> Node:
    """The node of a singular value decomposition."""
    m, n = node.shape
    return intern(TallSvd(False), (node,), (n + 1 + m, n), dtype)


def tall_pinv(node: Node, dtype: np.dtype[Any]) -> Node:
    """The node of a pseudoinverse, conjugated and turned."""
    return intern(TallPinv(False), (node,), node.shape, dtype)


@dataclass(frozen=True)
class BlockQr(Op):
    """Each block's R above the first `keep` rows of its Q."""

    keep: int
    name = "qr of blocks"

    def numpy(self, *arrays: Any) -> Any:
        if not self.keep:
            return np.linalg.qr(arrays[0], "r")
        q, r = np.linalg.qr(arrays[0])
        return np.concatenate([r, q[: self.keep]])


@on_block.register(BlockQr)
def _(op: BlockQr, out: Part, ins: Sequence[Part]) -> Op:
    rows, columns = out.dims
    return BlockQr(rows - columns)


@dataclass(frozen=True)
class Heads(Op):
    """The first n rows of each block: the Rs of a BlockQr."""

    name = "heads of blocks"

    def numpy(self, *arrays: Any) -> Any:
        return arrays[0][: arrays[0].shape[1]]


@dataclass(frozen=True)
class StackQr(Op):
    """R above Q of the Rs of all blocks, where they are (nothing elsewhere), with the signs LAPACK gives the whole.

    The second operand is the first block's Q as far as it decides them: its first n rows.
    """

    op: Qr
    name = "qr of heads"

    def numpy(self, *arrays: Any) -> Any:
        stack, top = arrays
        n = stack.shape[1]
        if not stack.shape[0]:
            return stack[:0]
        q, r = np.linalg.qr(stack)
        s = signs(top @ q[:n]).astype(r.dtype)
        head, factor = follows(self.op, s[:, None] * r)
        return np.concatenate([head, q * s if factor is None else (q * s) @ factor])


@dataclass(frozen=True)
class Apply(Op):
    """Each block's Q times its part of the stack's; above the first, R. Operands: a BlockQr, R, the stack's Q."""

    name = "q of blocks"

    def numpy(self, *arrays: Any) -> Any:
        blocks, r, q = arrays
        return np.concatenate([r, blocks[blocks.shape[1] :] @ q])


def signs(top: ND) -> ND:
    """Factors of +-1 that make the columns of Q those of Householder's method, from the first n rows of Q.

    By elimination: Ballard et al., "Reconstructing Householder vectors from tall-skinny QR", 2014.
    """
    t = top.astype(np.result_type(top.dtype, np.float64))
    n = t.shape[0]
    out = np.ones(n)
    for k in range(n):
        out[k] = -1.0 if t[k, k].real >= 0 else 1.0
        t[k, k] -= out[k]
        t[k + 1 :, k] /= t[k, k]
        t[k + 1 :, k + 1 :] -= np.outer(t[k + 1 :, k], t[k, k + 1 :])
    return out


@dataclass(frozen=True)
class Tall:
    """The layouts of a tall-skinny QR of a matrix whose rows are cut into blocks of at least n."""

    cuts: Cuts
    n: int
    op: Qr

    @property
    def only_r(self) -> bool:
        return self.op.only_r

    @property
    def head(self) -> int:
        """Rows of the result above those of the matrix."""
        return head_rows(self.op, self.n)

    @property
    def blocks(self) -> int:
        return len(self.cuts) - 1

    @property
    def stacked(self) -> int:
        """Rows of all Rs together."""
        return self.blocks * self.n

    @property
    def factors(self) -> Shard:
        """Of the blocks' factors: all their Rs and, where they are needed, their Qs."""
        kept = [min(c, self.n) if self.only_r else c for c in self.cuts]
        return Shard(0, tuple(c + k * self.n for k, c in enumerate(kept)))

    @property
    def apart(self) -> Shard:
        """Of n rows for each block."""
        return Shard(0, tuple(k * self.n for k in range(self.blocks + 1)))

    def together(self, rows: int) -> Shard:
        """Of rows that are all in the first block."""
        return Shard(0, (0, *(rows,) * self.blocks))

    @property
    def out(self) -> Shard:
        """Of the result."""
        if self.only_r:
            return self.together(self.n)
        return Shard(0, (0, *(self.head + c for c in self.cuts[1:])))


def tall_qr(node: Node, ins: Sequence[Layout]) -> Tall | None:
    """How a factorisation is done in steps if its operand lies so; None if it is done in one place."""
    if not isinstance(node.op, Qr) or node.ndim != 2 or not isinstance(ins[0], Shard):
        return None
    return Tall(ins[0].cuts, node.dims[1], node.op)


@specific.register(Qr)
def _(op: Qr, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    *lead, m, n = node.inputs[0].shape
    outer = LETTERS[: len(lead)]
    yield from by_letters([outer + "YZ"], outer + "XW", node, have, mesh)
    if not lead and mesh.total_blocks > 1 and n:
        for cuts in axis_cuts(have[0], 0, m, mesh):
            if all(high - low >= n for low, high in pairwise(cuts)):
                yield Rule((Shard(0, cuts),), Tall(cuts, n, op).out, line=True)


@inner_exchanges.register(Qr)
def _(op: Qr, node: Node, rule: Rule, mesh: Mesh) -> list[tuple[Layout, Layout, tuple[int, ...]]]:
    tall = tall_qr(node, rule.ins)
    if tall is None:
        return []
    apart, together, stack = tall.apart, tall.together(tall.stacked), (tall.stacked, tall.n)
    return [(apart, together, stack), *([] if tall.only_r else [(together, apart, stack)])]


@work.register(Qr)
@work.register(BlockQr)
@work.register(StackQr)
def _(op: Any, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(flops=QR_FLOPS * math.prod(shapes[0]) * shapes[0][-1])
