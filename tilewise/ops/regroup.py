"""Operators whose blocks must talk: what that takes. In: an operator, where operands and result lie. Out: a Traffic.

These are rules along the axis that is cut, where a block's part of the result needs more than the block's own elements.
What the workers then say to each other is in engine/talks/; here is how much, before anything runs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tilewise.ir.node import Op
from tilewise.layout import Cuts, Layout, Mesh, Shard
from tilewise.ops.index import At, Compress, Gather, Put
from tilewise.ops.move import Move
from tilewise.ops.reduce import Arg, Scan
from tilewise.ops.sort import Argsort, Sort

SORT_SAMPLES = 16  # per worker and worker: the ranges of a sample sort then differ by some per cent
COUNT_BYTES = np.dtype(np.int64).itemsize  # of a number of elements, or an index, on the way


class Regroup(Move):
    """An operator along the axis that is cut. Its operands: the operator's own, or what blocks made of them."""

    __slots__ = ("op",)
    name = "regroup"

    def __init__(self, op: Op, src: Layout, dst: Layout) -> None:
        super().__init__(src, dst)
        self.op = op

    def numpy(self, *arrays: Any) -> Any:
        raise AssertionError("what workers say to each other has no meaning on one")

    def label(self) -> str:
        return self.op.label()


class Operand(NamedTuple):
    """The type of an array, and where it lies."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout

    @property
    def row_bytes(self) -> int:
        """Bytes of what has one index along the axis that is cut."""
        assert isinstance(self.layout, Shard)
        return prod(d for a, d in enumerate(self.shape) if a != self.layout.axis) * self.dtype.itemsize

    def counts(self, mesh: Mesh) -> list[int]:
        """How many elements each worker has."""
        return [n * (self.row_bytes // self.dtype.itemsize) for n in self.lengths(mesh)]

    def lengths(self, mesh: Mesh) -> list[int]:
        """What each worker has along the axis that is cut."""
        assert isinstance(self.layout, Shard)
        edges = worker_cuts(self.layout.cuts, mesh)
        return [edges[w + 1] - edges[w] for w in range(mesh.workers)]


@dataclass(frozen=True)
class Traffic:
    """What workers say to each other."""

    name: str
    bytes: int  # between workers, in all
    widths: tuple[int, ...]  # per exchange: how many arrays go from one worker to another
    exact: bool = False  # else at most so many bytes: how many depends on the data


def worker_cuts(cuts: Cuts, mesh: Mesh) -> Cuts:
    """Where the parts of workers begin and end."""
    return cuts[:: mesh.blocks]


@functools.singledispatch
def traffic(op: Any, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """What the workers of a line say to each other in this operator."""
    raise AssertionError(f"blocks do not talk in {op}")


@traffic.register
def _(op: Sort, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Samples, counts, and the elements twice."""
    p, length, size = mesh.workers, out.shape[0], out.dtype.itemsize
    samples = min(SORT_SAMPLES * p, length) * size
    return Traffic("sample sort", p * (p - 1) * (samples + COUNT_BYTES) + 2 * length * size, (1, 1, 1, 1))


@traffic.register
def _(op: Argsort, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Samples, counts, the elements with their positions, and the positions once more."""
    p, length, size = mesh.workers, out.shape[0], ins[0].dtype.itemsize
    samples = min(SORT_SAMPLES * p, length) * size
    moved = length * (size + 2 * out.dtype.itemsize)
    return Traffic("sample sort", p * (p - 1) * (samples + COUNT_BYTES) + moved, (1, 2, 1, 1))


@traffic.register
def _(op: Scan, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """What each worker's part comes to, to every later one that has a part."""
    parts = sum(n > 0 for n in out.lengths(mesh))
    return Traffic("totals of a scan", parts * (parts - 1) // 2 * out.row_bytes, (1,), exact=True)


@traffic.register
def _(op: Gather, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Indices to the owners of rows, rows back. A worker asks for a row once, and not for its own."""
    base, index = ins
    owned, asked = base.lengths(mesh), index.counts(mesh)
    rows = sum(min(n, sum(owned) - own) for n, own in zip(asked, owned, strict=True))
    return Traffic("rows by index", rows * (COUNT_BYTES + base.row_bytes), (1, 1))


@traffic.register(Put)
@traffic.register(At)
def _(op: Put | At, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Indices, and values where they differ, to the owners of rows. For a mask: how many rows, to all; then rows."""
    *given, index = ins[1:]
    if index.dtype == np.bool_:
        p, (value,) = mesh.workers, given
        return Traffic("selected rows", p * (p - 1) * COUNT_BYTES + value.shape[0] * value.row_bytes, (1, 1))
    each = COUNT_BYTES + sum(x.row_bytes for x in given if isinstance(x.layout, Shard))
    return Traffic("values by index", index.shape[0] * each, (2,))


@traffic.register
def _(op: Compress, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """How many rows each worker has selected, to all; then the rows to where they belong."""
    p = mesh.workers
    return Traffic("selected rows", p * (p - 1) * COUNT_BYTES + out.shape[0] * out.row_bytes, (1, 1))


@traffic.register
def _(op: Arg, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """The best of every worker that has some, with its position, to the workers that have that part of the result."""
    pair = ins[0].dtype.itemsize + out.dtype.itemsize
    have = [n > 0 for n in ins[0].lengths(mesh)]
    parts = out.counts(mesh) if isinstance(out.layout, Shard) else [prod(out.shape)] * mesh.workers
    heard = sum(part * (sum(have) - own) for part, own in zip(parts, have, strict=True))
    return Traffic("best of each", heard * pair, (2,), exact=True)
