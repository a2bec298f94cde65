"""The different elements of a vector, or rows. In: a vector or matrix. Out: a matrix, from which they are selected.

How many there are depends on the data, so what workers make has a column for every element: each different one stands
in one of them, in order, and the first row says which these are (`kept`). Further rows have where each comes first, how
often it comes, and for every element of the vector the number of its value. Rows of a matrix are compared as NumPy does
it, as elements of a structured dtype; on the way, and only there, they are such.

On a mesh no worker sends more than its own different elements: to the worker that has their range of values, or, if
they are few, to the first.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Mesh, Piecewise, Shard, even_shard
from tilewise.ops.order.sort import SORT_SAMPLES, ranges, samples, splitters
from tilewise.ops.traits.collectives import (
    COUNT_BYTES,
    ND,
    CollectiveCall,
    Exchanging,
    Operand,
    Outbox,
    Parts,
    Traffic,
    exchange_rounds,
    traffic,
    worker_cuts,
)
from tilewise.ops.traits.rule import Options, Rule, axis_cuts, by_letters, specific
from tilewise.ops.traits.work import Work, work
from tilewise.records import dataclass

KEPT, VALUE = 0, 1  # rows that are always there
INDEX = np.dtype(np.int64)
FEW = 1024  # elements of a worker that may all go to the first one, whatever that has to do with them


@dataclass(frozen=True)
class Distinct(Op):
    """Rows of np.unique of a vector: kept, values, then index, counts and inverse as asked for.

    `width`: of the rows of a matrix with so many columns, each of which is a row of values here; 0 for a vector.
    What is `likely` decides only how workers exchange elements.
    """

    index: bool
    counts: bool
    inverse: bool
    equal_nan: bool
    width: int = 0
    likely: int = 0  # so many different ones are expected, in all; 0: nothing is known
    name = "distinct"
    stays = True

    @property
    def after_values(self) -> int:
        """The row that comes after those of values."""
        return VALUE + max(self.width, 1)

    @property
    def rows(self) -> int:
        return self.after_values + self.index + self.counts + self.inverse

    def numpy(self, *arrays: Any) -> Any:
        (x,) = arrays
        return self.filled(_unique(self, self.elements(x)), len(x), row_dtype(self, x.dtype))

    def elements(self, x: ND) -> ND:
        """What is compared: the elements of a vector, or the rows of a matrix."""
        if not self.width:
            return x
        fields = np.dtype([(f"f{k}", x.dtype) for k in range(self.width)])
        return np.ascontiguousarray(x).view(fields).reshape(-1)

    def filled(self, found: Sequence[ND], length: int, dtype: np.dtype[Any]) -> ND:
        """Rows from what np.unique gives, in this order: values, index, inverse, counts."""
        values, *more = found
        given = [values[name] for name in values.dtype.names] if values.dtype.names else [values]
        if self.index:
            given.append(more.pop(0))
        number = more.pop(0) if self.inverse else None
        given += more
        out = np.zeros((self.rows, length), dtype)
        out[KEPT, : values.size] = 1
        for row, x in zip(out[VALUE:], given, strict=False):
            row[: values.size] = x.astype(dtype)
        if number is not None:
            out[-1] = number
        return out


def row_dtype(op: Distinct, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A dtype that keeps elements, and numbers of elements where there are any, as they are."""
    if op.rows == op.after_values:
        return dtype
    return INDEX if dtype.kind in "biu" else np.result_type(dtype, np.float64)


def distinct(node: Node, *, index: bool, counts: bool, inverse: bool, equal_nan: bool, likely: int = 0) -> Node:
    """The rows of a vector's different elements, or of a matrix's different rows."""
    op = Distinct(index, counts, inverse, equal_nan, node.dims[1] if node.ndim > 1 else 0, likely)
    return intern(op, (node,), (op.rows, node.dims[0]), row_dtype(op, node.dtype))


@dataclass(frozen=True)
class Row(Op):
    """A row of such a matrix, in the dtype of what it has; or several, as columns."""

    row: int
    dtype: np.dtype[Any]
    count: int = 0
    name = "row"

    @property
    def stays(self) -> bool:  # type: ignore[override]
        return self.row == KEPT

    def numpy(self, *arrays: Any) -> Any:
        x = arrays[0][self.row : self.row + self.count].T if self.count else arrays[0][self.row]
        return (x.real if self.dtype.kind != "c" else x).astype(self.dtype)


def row(matrix: Node, k: int, dtype: np.dtype[Any]) -> Node:
    """What a row of the matrix has."""
    return intern(Row(k, dtype), (matrix,), matrix.dims[1:], dtype)


def values(matrix: Node, dtype: np.dtype[Any]) -> Node:
    """The elements that were compared, each where it may be kept."""
    assert isinstance(matrix.op, Distinct)
    if not (width := matrix.op.width):
        return row(matrix, VALUE, dtype)
    return intern(Row(VALUE, dtype, width), (matrix,), (matrix.dims[1], width), dtype)


def _unique(op: Distinct, x: ND) -> tuple[ND, ...]:
    made: Any = np.unique(  # type: ignore[call-overload]  # of flags that are not literal
        x, return_index=op.index, return_inverse=op.inverse, return_counts=op.counts, equal_nan=op.equal_nan
    )
    return made if isinstance(made, tuple) else (made,)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Distinct)
def _(op: Distinct, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    n = node.inputs[0].shape[0]
    if mesh.workers > 1 and n >= 2:
        for cuts in axis_cuts(have[0], 0, n, mesh):
            yield Rule((Shard(0, cuts),), Shard(1, cuts), collective=True)
        if not op.index and not op.inverse:  # where elements are does not matter
            out = even_shard(1, node.shape, mesh)
            yield from (Rule((p,), out, collective=True) for p in have[0] if isinstance(p, Piecewise))


@specific.register(Row)
def _(op: Row, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from by_letters(["ab"], "bc" if op.count else "b", node, have, mesh)


def divided_bytes(item: int, mesh: Mesh) -> int:
    """Bytes by which workers agree on ranges, at most: samples to the first, splitters to all."""
    p = mesh.workers
    return (p - 1) * (SORT_SAMPLES * p + p - 1) * item


DIVIDED = (1, 1)  # arrays of a message, in each of these exchanges


def divided(values: ND, worker: int, mesh: Mesh) -> Generator[Outbox, Outbox, ND]:
    """Elements that cut those of all workers, each a sorted array, into ranges, one per worker (`sort.ranges`).

    Who has few sends no sample: to send all to the first worker is no more than a sample, and most to others. If nobody
    has more, nothing is cut, and all are in the first worker's range.
    """
    workers, nothing, size = range(mesh.workers), values[:0], SORT_SAMPLES * mesh.workers
    mine = nothing if values.size <= max(size, min(size * mesh.workers, FEW)) else samples(values, mesh)
    inbox = yield [[mine if w == 0 else nothing] for w in workers]
    split = splitters([piece for (piece,) in inbox], mesh.workers) if worker == 0 else nothing
    inbox = yield [[split] for _ in workers]
    return inbox[0][0]


def first_of_equal(values: ND, equal_nan: bool) -> ND:
    """Which elements of a sorted array differ from the one before."""
    new = np.ones(values.size, bool)
    new[1:] = values[1:] != values[:-1]
    if equal_nan and values.dtype.kind in "fc":
        new[1:] &= ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
    return new


@traffic.register(Distinct)
def _(op: Distinct, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Elements to ranges, with what is known of them, and their numbers back; again if a range is too long.

    A worker sends its own different ones. Who asks for them has many that are equal: half, where nothing is known.
    """
    p, n, item = mesh.workers, ins[0].shape[0], ins[0].dtype.itemsize * max(op.width, 1)
    each = item + COUNT_BYTES * (op.index + op.counts)
    few = divided_bytes(item, mesh) + p * (p - 1) * COUNT_BYTES
    back = COUNT_BYTES * op.inverse
    once = n * (each + back)
    likely = min(op.likely * p, n) * (each + back) if op.likely else once // 2
    expected = few + likely - likely // p
    width = 1 + op.index + op.counts
    return Traffic("different elements", few + n * each + once, (*DIVIDED, width, 1, 1 + width), expected=expected)


@exchange_rounds.register(Distinct)
def _(op: Distinct, call: CollectiveCall, worker: int, blocks: Parts) -> Exchanging:
    mesh, layout = call.mesh, call.out.layout
    assert isinstance(layout, Shard)
    workers, cuts = range(mesh.workers), worker_cuts(layout.cuts, mesh)
    x = op.elements(np.concatenate([blocks[b] for b in sorted(blocks)]))
    values, *more = _unique(op, x)
    sent = [values]
    if op.index:
        sent.append(more.pop(0) + cuts[worker])
    own = more.pop(0) if op.inverse else np.empty(0, np.intp)
    sent += more
    edges = ranges(values, (yield from divided(values, worker, mesh)), mesh.workers)
    inbox = yield [[s[edges[w] : edges[w + 1]] for s in sent] for w in workers]
    # Equal elements are here together, in the order of workers, and so of positions.
    joined = [np.concatenate(parts) for parts in zip(*inbox, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    new = first_of_equal(joined[0][order], op.equal_nan)
    begin = np.flatnonzero(new)
    columns = [x[order][begin] for x in joined[: 1 + op.index]]
    if op.counts:
        columns.append(np.add.reduceat(joined[-1][order], begin) if begin.size else joined[-1])
    counted = yield [[np.array([begin.size])] for _ in workers]
    ends = list(accumulate((int(n[0]) for (n,) in counted), initial=0))
    target = _targets(ends, cuts)
    number = np.empty(order.size, np.int64)
    number[order] = np.cumsum(new) - 1 + ends[worker]
    back = np.split(number, np.cumsum([parts[0].size for parts in inbox])[:-1])
    low = ends[worker]
    outbox = []
    for w in workers:
        part = slice(max(target[w] - low, 0), max(target[w + 1] - low, 0))
        outbox.append([back[w] if op.inverse else back[w][:0], *(c[part] for c in columns)])
    inbox = yield outbox
    found = [np.concatenate(parts) for parts in zip(*(pieces[1:] for pieces in inbox), strict=True)]
    if op.inverse:
        numbers = np.concatenate([pieces[0] for pieces in inbox])
        found.insert(1 + op.index, numbers[own.reshape(-1)])
    low = cuts[worker]
    whole = op.filled(found, cuts[worker + 1] - low, call.out.dtype)
    return {b: whole[:, layout.cuts[b] - low : layout.cuts[b + 1] - low].copy() for b in mesh.blocks_of(worker)}


def _targets(ends: Sequence[int], cuts: Sequence[int]) -> Sequence[int]:
    """Where the different elements of each worker end: where they are if all have room, else in proportion to it."""
    room = all(b - a <= d - c for a, b, c, d in zip(ends, ends[1:], cuts, cuts[1:], strict=False))
    return ends if room else [ends[-1] * c // cuts[-1] for c in cuts]


@work.register(Distinct)
def _(op: Distinct, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    n = shapes[0][0]
    return Work(compared=n * math.log2(max(n, 2)))
