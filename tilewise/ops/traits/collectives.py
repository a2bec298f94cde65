"""Collectives whose messages depend on data. In: an operator, where operands and result lie.

These are rules along the axis that is cut, where a block's part of the result needs more than the block's own elements.
Out: how much moves, before anything runs (`traffic`), and what each worker sends and makes of what it gets
(`exchange_rounds`): one generator for a family of operators, run by every worker alike, in which each `yield` is an
exchange. It gives a list of arrays for every worker (itself included; all lists of an exchange have the length that
`traffic` announced) and gets what every worker gave it. What it returns are the worker's blocks. Both are registered
beside the operator's class; no data moves here (see engine/collectives.py).
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tilewise.ir.node import Op
from tilewise.layout import Cuts, Cutting, Layout, Mesh, length
from tilewise.ops.move import Move
from tilewise.records import dataclass

ND = np.ndarray[Any, Any]
Parts = dict[int, ND]  # block -> array; -1 for values held once per worker
Outbox = list[list[ND]]  # per worker: arrays
Exchanging = Generator[Outbox, Outbox, Parts]
COUNT_BYTES = np.dtype(np.int64).itemsize  # of a number of elements, or an index, on the way


class Collective(Move):
    """An operator along the axis that is cut. Its operands: the operator's own, or what blocks made of them."""

    __slots__ = ("op",)
    name = "collective"

    def __init__(self, op: Op, src: Layout, dst: Layout) -> None:
        super().__init__(src, dst)
        self.op = op

    def numpy(self, *arrays: Any) -> Any:
        raise AssertionError("a collective has no meaning on one worker")

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
        assert isinstance(self.layout, Cutting)
        return prod(d for a, d in enumerate(self.shape) if a != self.layout.axis) * self.dtype.itemsize

    def counts(self, mesh: Mesh) -> list[int]:
        """How many elements each worker has."""
        return [n * (self.row_bytes // self.dtype.itemsize) for n in self.lengths(mesh)]

    def lengths(self, mesh: Mesh) -> list[int]:
        """What each worker has along the axis that is cut."""
        layout = self.layout
        assert isinstance(layout, Cutting)
        return [sum(length(layout.owned(b)) for b in mesh.blocks_of(w)) for w in range(mesh.workers)]


@dataclass(frozen=True)
class Traffic:
    """What the workers of a collective send to each other."""

    name: str
    bytes: int  # between workers, in all
    widths: tuple[int, ...]  # per exchange: how many arrays go from one worker to another
    exact: bool = False  # else at most so many bytes: how many depends on the data
    expected: int | None = None  # of data that come as they may, if that is less: what plans are compared by
    arriving: int | None = None  # at one worker, at most, its own pieces included; else taken to be its share
    evens: int = 0  # exchanges at the end that cut a result evenly: none where results are put one behind the other
    looks: int | None = None  # how often blocks in turn read their operands, if nothing of these is held between rounds
    any_length: int | None = None  # if the result had another length, which a mask decides: at most so many bytes


def worker_cuts(cuts: Cuts, mesh: Mesh) -> Cuts:
    """Where the parts of workers begin and end."""
    return cuts[:: mesh.blocks]


@functools.singledispatch
def traffic(op: Any, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """What workers in one line send to each other in this operator."""
    raise AssertionError(f"no collective for {op}")


@dataclass(frozen=True, eq=False)
class CollectiveCall:
    """One collective of a plan: the operator, its operands and its result."""

    collective: Collective
    ins: tuple[Operand, ...]
    out: Operand
    mesh: Mesh
    site: tuple[str, int] | None
    in_turn: bool = False  # results are put one behind the other: a worker's part may have any length


@functools.singledispatch
def exchange_rounds(op: Any, call: CollectiveCall, worker: int, *sources: Parts) -> Exchanging:
    """What one worker sends in each round, and makes of what it receives."""
    raise AssertionError(f"no collective for {op}")
