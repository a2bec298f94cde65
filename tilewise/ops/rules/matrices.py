"""Rules of transforms and linear algebra. What is done in steps is written into plans by solver/expand.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tilewise.ir.node import Node
from tilewise.layout import Mesh, Shard
from tilewise.ops.cholesky import Cholesky, blocks
from tilewise.ops.contract import LETTERS
from tilewise.ops.fft import Fft
from tilewise.ops.linear import Linalg
from tilewise.ops.qr import Qr, Tall
from tilewise.ops.rules.rule import Options, Rule, axis_cuts, by_letters, specific


@specific.register
def _(op: Fft, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    yield from by_letters([term], term.replace(term[op.axis], LETTERS[-1]), node, have, mesh)


@specific.register
def _(op: Linalg, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    ins, out = op.letters.split("->")
    yield from by_letters(ins.split(","), out, node, have, mesh)


@specific.register
def _(op: Cholesky, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    n = node.shape[0]
    for axis in (0, 1) if len(blocks(n, mesh)) > 2 else ():
        for cuts in axis_cuts(have[0], axis, n, mesh):
            yield Rule((Shard(axis, cuts),), Shard(axis, cuts))


@specific.register
def _(op: Qr, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    *lead, m, n = node.inputs[0].shape
    outer = LETTERS[: len(lead)]
    yield from by_letters([outer + "YZ"], outer + "XW", node, have, mesh)
    if not lead and mesh.total_blocks > 1 and n:
        for cuts in axis_cuts(have[0], 0, m, mesh):
            if all(high - low >= n for low, high in pairwise(cuts)):
                yield Rule((Shard(0, cuts),), Tall(cuts, n, op.only_r).out, line=True)
