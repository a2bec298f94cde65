"""Products of three matrices in the order that costs less."""

from __future__ import annotations

from tilewise import rounding
from tilewise.ir.node import Node
from tilewise.ops.contract import Contract, matmul
from tilewise.ops.linalg.chain import chain
from tilewise.rewrite.rule import Rule


def _plain(node: Node) -> bool:
    """Whether it is a product of matrices or vectors that is still to be computed."""
    op = node.op
    if node.value is not None or type(op) is not Contract or op.how not in ("matmul", "dot"):
        return False
    return all(x.ndim in (1, 2) and x.known for x in node.inputs)


def _shaped(node: Node) -> bool:
    if not _plain(node) or (node.dtype.kind not in "iu" and node.dtype.char not in "fd"):
        return False
    return any(x.ndim and _plain(x) for x in node.inputs) and _three(node) is not None


def _three(node: Node) -> tuple[Node, Node, Node, bool] | None:
    """The factors of a product of three, and whether it is written as a @ (b @ c)."""
    first, second = node.inputs
    if _plain(first) and first.inputs[1].ndim == 2:  # (a @ b) @ c
        return first.inputs[0], first.inputs[1], second, False
    if _plain(second) and second.inputs[0].ndim == 2:
        return first, second.inputs[0], second.inputs[1], True
    return None


def reordered(node: Node) -> Node | None:
    """(a @ b) @ c => a @ (b @ c), and the other way round, where that takes less than half the work"""
    found = _three(node)
    assert found is not None
    a, b, c, right = found
    rows = a.shape[0] if a.ndim == 2 else 1
    columns = c.shape[1] if c.ndim == 2 else 1
    left_flops = rows * b.shape[0] * b.shape[1] + rows * b.shape[1] * columns
    right_flops = b.shape[0] * b.shape[1] * columns + rows * b.shape[0] * columns
    now, then = (right_flops, left_flops) if right else (left_flops, right_flops)
    if now < rounding.CHAIN_MIN_FLOPS or then * rounding.CHAIN_GAIN >= now:
        return None
    if node.dtype.kind == "f":
        return chain(a, b, c, right)
    d = node.dtype  # sums of integers wrap to the same in any order
    return matmul(matmul(a, b, d), c, d) if right else matmul(a, matmul(b, c, d), d)


RULES = (Rule((Contract,), _shaped, reordered, rounds="f"),)
