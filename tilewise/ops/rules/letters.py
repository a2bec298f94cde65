"""Rules that follow from index letters, and those of new arrays."""

from __future__ import annotations

from collections.abc import Iterator

from tilewise.ir.node import Node
from tilewise.ir.scalar import LAWS
from tilewise.layout import Layout, Mesh, Partial, Shard, even_cuts
from tilewise.ops.bucket import Bucket, Elsewhere
from tilewise.ops.chain import Chain
from tilewise.ops.contract import LETTERS, Contract
from tilewise.ops.create import Arange, Full
from tilewise.ops.elementwise import Map
from tilewise.ops.join import Broadcast, Copy
from tilewise.ops.random import Random
from tilewise.ops.reduce import Reduce
from tilewise.ops.rules.rule import (
    ASSOCIATIVE,
    WHOLE,
    Options,
    Rule,
    axis_cuts,
    by_letters,
    specific,
    still_partial,
)


def _aligned(node: Node) -> tuple[list[str], str]:
    """Letters of an elementwise node: operands aligned at the right."""
    out = LETTERS[: node.ndim]
    return [out[node.ndim - x.ndim :] for x in node.inputs], out


@specific.register
def _(op: Map, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    terms, out = _aligned(node)
    yield from by_letters(terms, out, node, have, mesh)
    for over, how in LAWS.get(op.fn.name, {}).items():
        p = Partial(over)
        if how == "together" and all(x.shape == node.shape for x in node.inputs):
            yield Rule((p,) * len(node.inputs), p)
        elif how == "one" and node.dtype.kind in "iu":  # of floats, a part that is zero times inf is not zero
            yield Rule((p, WHOLE), p)
            yield Rule((WHOLE, p), p)


@specific.register
def _(op: Reduce, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.inputs[0].ndim]
    out = "".join(c if i not in op.axes else c.swapcase() if op.keepdims else "" for i, c in enumerate(term))
    over = op.fn if op.fn in ASSOCIATIVE else None
    yield from by_letters([term], out, node, have, mesh, over)
    if over is not None:
        yield Rule((Partial(over),), Partial(over))


@specific.register
def _(op: Contract, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    ins, out = op.letters.split("->")
    yield from by_letters(ins.split(","), out, node, have, mesh, "add")
    if node.dtype.kind in "iu":  # of floats, a part that is zero times inf is not zero
        for k in range(len(node.inputs)):
            parts: list[Layout] = [WHOLE] * len(node.inputs)
            parts[k] = Partial("add")
            yield Rule(tuple(parts), Partial("add"))


@specific.register
def _(op: Chain, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    a, _, c = node.inputs
    first, last = "ab"[2 - a.ndim :], "cd"[: c.ndim]
    yield from by_letters([first, "bc", last], first[:-1] + last[1:], node, have, mesh, "add")


@specific.register
def _(op: Copy, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    yield from by_letters([term], term, node, have, mesh)
    yield from still_partial(have[0])


@specific.register
def _(op: Broadcast, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from still_partial(have[0])
    for axis, size in enumerate(node.shape):
        if size < 2:
            continue
        source = node.inputs[0]
        k = axis - (node.ndim - source.ndim)
        if k < 0 or source.shape[k] == 1:
            yield Rule((WHOLE,), Shard(axis, even_cuts(size, mesh.total_blocks)))
        else:
            for cuts in axis_cuts(have[0], k, size, mesh):
                yield Rule((Shard(k, cuts),), Shard(axis, cuts))


@specific.register
def _(op: Bucket, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    each = LETTERS[: node.inputs[0].ndim]
    over = op.fn if op.fn in ASSOCIATIVE else None
    yield from by_letters([each, "a"], LETTERS[-1] + each[1:], node, have, mesh, over)


@specific.register
def _(op: Elsewhere, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    each = LETTERS[: node.ndim]
    sums = LETTERS[-1] + each[1:]
    for rule in by_letters([sums, each, "a"], sums, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis > 0:
            yield rule
    if node.inputs[1].shape[0] >= 2:  # a block's own sums say whether its own elements are finite
        for cuts in axis_cuts([*have[1], *have[2]], 0, node.inputs[1].shape[0], mesh):
            yield Rule((Partial("add"), Shard(0, cuts), Shard(0, cuts)), Partial("add"))


# -- creation ------------------------------------------------------------------------------------------------------


@specific.register
def _(op: Full, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    for axis, size in enumerate(node.shape):
        if size >= 2:
            yield Rule((WHOLE,), Shard(axis, even_cuts(size, mesh.total_blocks)))


@specific.register
def _(op: Arange, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    if op.length >= 2:
        yield Rule((), Shard(0, even_cuts(op.length, mesh.total_blocks)))


@specific.register
def _(op: Random, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    for axis, size in enumerate(op.shape):
        if size >= 2:
            yield Rule((), Shard(axis, even_cuts(size, mesh.total_blocks)))
