"""Selection by index arrays. In: a base, index arrays. Out: the selection.

Along the axis that is cut, two exchanges: a worker asks the owners for the rows that it needs (each once), and gets
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op
from tilewise.layout import Cuts, Mesh, Shard
from tilewise.ops.create import Arange
from tilewise.ops.index.key import FULL_AXIS, Key, Together, picked, rebuild, together
from tilewise.ops.index.owners import (
    Rows,
    base_layouts,
    cut_along,
    letters_of,
    named_shape,
    row_bytes,
    rows_owned,
    runs_of,
)
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.collectives import (
    COUNT_BYTES,
    ND,
    CollectiveCall,
    Exchanging,
    Operand,
    Parts,
    Traffic,
    exchange_rounds,
    traffic,
)
from tilewise.ops.traits.rule import Options, Rule, axis_cuts, by_letters, few, known_cuts, specific
from tilewise.ops.views import Window
from tilewise.records import dataclass

DENSE = 2  # rows per index up to which a table of all rows is several times faster than sorting the indices


@dataclass(frozen=True)
class Gather(Op):
    """base[key] with index arrays. `take`: the result is in C order (np.take).

    `counting` is an index array that counts through the whole axis it indexes, 0, 1, 2, ...: cut like that axis, it
    names rows of the same block, whose first is `low`.
    """

    key: Key
    take: bool = False
    counting: int | None = None
    low: int = 0
    name = "gather"

    def numpy(self, *arrays: Any) -> Any:
        if self.counting is not None and self.low:
            arrays = tuple(x - self.low if k == self.counting + 1 else x for k, x in enumerate(arrays))
        if self.take:
            return self._in_c_order(*arrays)
        if len(self.key) == 1 and self.key[0] == ("a", 0):
            return picked(arrays[0], np.asarray(arrays[1]))
        return arrays[0][rebuild(self.key, arrays[1:])]

    def _in_c_order(self, base: Any, *index: Any) -> Any:
        *before, last = self.key
        if last == ("a", 0) and all(part == FULL_AXIS for part in before):
            return np.take(base, index[0], len(before))
        return np.asarray(base[rebuild(self.key, index)], order="C")  # a view of the base was taken from


def counts_through(index: Node, length: int) -> bool:
    """Whether an index array counts through an axis of this length."""
    count = index.inputs[0] if type(index.op) is Window and index.value is None and _in_order(index.op) else index
    op = count.op
    if type(op) is not Arange or count.value is not None or not index.known:
        return False
    return (op.begin, op.first, op.second) == (0, 0, 1) and op.length == length == index.size > 1


def _in_order(window: Window) -> bool:
    """Whether a view has the elements of a vector in their order, in whatever shape."""
    steps = [s for n, s in zip(window.shape, window.strides, strict=True) if n > 1]
    return window.offset == 0 and steps == sorted(steps, reverse=True) and all(s > 0 for s in steps)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Gather)
def _(op: Gather, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    base, *index = node.inputs
    key = together(op.key, base.ndim)
    if key is None or any(x.dtype.kind not in "iu" for x in index):
        return
    terms, out = letters_of(base, index, key)
    yield from by_letters(terms, out, node, have, mesh, pieces=True)
    yield from _aligned(op, node, key, have, mesh)
    both = named_shape([x.dims for x in index])
    if mesh.workers == 1:
        return
    for k, n in enumerate(both):
        if n < 2 and prod(both) != 1:
            continue
        for asked in _asked(index, have[1:], k, both, mesh):
            for layout in base_layouts(base, key, have[0], mesh):
                yield Rule((layout, *cut_along(index, k, both, asked)), Shard(key.first + k, asked), collective=True)


def _aligned(op: Gather, node: Node, key: Together, have: Options, mesh: Mesh) -> Iterator[Rule]:
    """One index array counts through an axis: cut alike, every block finds what it needs in its own part."""
    if op.counting is None:
        return
    base, *index = node.inputs
    both = named_shape([x.dims for x in index])
    counting = index[op.counting]
    axis = key.first + key.parts.index(("a", op.counting))
    k = counting.shape.index(counting.size) + len(both) - counting.ndim
    for cuts in axis_cuts(have[0], axis, base.shape[axis], mesh):
        yield Rule((Shard(axis, cuts), *cut_along(index, k, both, cuts)), Shard(key.first + k, cuts))


@on_block.register(Gather)
def _(op: Gather, out: Part, ins: Sequence[Part]) -> Op:
    if op.counting is None:
        return op
    key = together(op.key, len(ins[0].shape))
    assert key is not None
    axis = key.first + key.parts.index(("a", op.counting))
    return replace(op, low=ins[0].along(axis)[0])


def _asked(index: Sequence[Node], have: Options, axis: int, both: tuple[int, ...], mesh: Mesh) -> list[Cuts]:
    """Cuts of an axis of what index arrays have together."""
    known = [
        cuts
        for x, layouts in zip(index, have, strict=True)
        if (k := axis - (len(both) - x.ndim)) >= 0 and x.shape[k] == both[axis]
        for cuts in known_cuts(layouts, k)
    ]
    return few(list(dict.fromkeys(known)), both[axis], mesh)


@traffic.register(Gather)
def _(op: Gather, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Indices to the owners of rows, rows back. A worker asks for a row once, and not for its own."""
    base, *index = ins
    key = together(op.key, len(base.shape))
    assert key is not None and isinstance(out.layout, Shard)
    owned = rows_owned(base, key, mesh)
    both = named_shape([x.shape for x in index])
    count = prod(n for k, n in enumerate(both) if k != out.layout.axis - key.first)  # of one index of what is asked
    rows = sum(min(n * count, sum(owned) - own) for n, own in zip(out.lengths(mesh), owned, strict=True))
    return Traffic("rows by index", rows * (COUNT_BYTES + row_bytes(base, key)), (1, 1))


@exchange_rounds.register(Gather)
def _(op: Gather, call: CollectiveCall, worker: int, blocks: Parts, *index: Parts) -> Exchanging:
    base, mine = call.ins[0], call.mesh.blocks_of(worker)
    key = together(op.key, len(base.shape))
    assert key is not None
    places = Rows(call, key)
    wanted = list(places.numbers(index, mine))
    rows, which = distinct(np.concatenate([w.ravel() for w in wanted]), prod(places.lengths))
    order, runs = runs_of(places.owners(rows), call.mesh.workers)
    asked = yield [[rows[order[run]]] for run in runs]
    inbox = yield [[_taken(places, blocks, theirs, base)] for (theirs,) in asked]
    found = np.concatenate([piece for (piece,) in inbox], axis=key.first)
    back = np.empty_like(order)
    back[order] = np.arange(order.size)
    which = back[which]
    out: Parts = {}
    start = 0
    for b, part in zip(mine, wanted, strict=True):
        some = np.take(found, which[start : start + part.size], axis=key.first)
        out[b] = some.reshape(*some.shape[: key.first], *part.shape, *some.shape[key.first + 1 :])
        start += part.size
    return out


def _taken(places: Rows, blocks: Parts, rows: ND, base: Operand) -> ND:
    """The rows of the worker's own that another asks for."""
    first, last = places.key.first, places.key.axes[-1] + 1
    if len(blocks) == 1:
        ((b, x),) = blocks.items()
        return x[places.within(rows, b)[1]]
    out = np.empty((*base.shape[:first], rows.size, *base.shape[last:]), base.dtype)
    for b, x in blocks.items():
        where, index = places.within(rows, b)
        here: tuple[ND | slice, ...] = (*[slice(None)] * first, where)
        out[here] = x[index]
    return out


def distinct(index: ND, length: int) -> tuple[ND, ND]:
    """The different ones among indices below `length`, sorted, and for every index which of them it is."""
    if length > DENSE * index.size:
        return np.unique(index, return_inverse=True)
    there = np.zeros(length, bool)
    there[index] = True
    rows = np.flatnonzero(there)
    place = np.empty(length, np.intp)
    place[rows] = np.arange(rows.size)
    return rows, place[index]
