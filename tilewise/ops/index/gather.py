"""Selection by index arrays. In: a base, index arrays. Out: the selection.

Along the axis that is cut, two exchanges: a worker asks the owners for the rows that it needs (each once), and gets
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op
from tilewise.layout import Mesh, Shard
from tilewise.ops.collectives import (
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
from tilewise.ops.index.key import Key, one_array, picked, rebuild
from tilewise.ops.index.owners import by_owner, from_front, taken
from tilewise.ops.rule import LETTERS, Options, Rule, axis_cuts, by_letters, specific

DENSE = 2  # rows per index up to which a table of all rows is several times faster than sorting the indices


@dataclass(frozen=True)
class Gather(Op):
    """base[key] with index arrays. `take`: whole axes, then one index array, and the result in C order (np.take)."""

    key: Key
    take: bool = False
    name = "gather"

    def numpy(self, *arrays: Any) -> Any:
        if self.take:
            return np.take(arrays[0], arrays[1], len(self.key) - 1)
        if len(self.key) == 1 and self.key[0] == ("a", 0):
            return picked(arrays[0], np.asarray(arrays[1]))
        return arrays[0][rebuild(self.key, arrays[1:])]


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register
def _(op: Gather, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    at = one_array(op.key)
    if at is None:
        return
    base, index = node.inputs
    term = LETTERS[: base.ndim]
    own = LETTERS[base.ndim : base.ndim + index.ndim]
    yield from (
        r
        for r in by_letters([term, own], term[:at] + own + term[at + 1 :], node, have, mesh)
        if not (isinstance(r.ins[0], Shard) and r.ins[0].axis == at)
    )
    if mesh.workers == 1 or base.shape[at] < 2:
        return
    for k, n in enumerate(index.shape):
        if n >= 2 or index.size == 1:
            for asked in axis_cuts(have[1], k, n, mesh):
                for cuts in axis_cuts(have[0], at, base.shape[at], mesh):
                    yield Rule((Shard(at, cuts), Shard(k, asked)), Shard(at + k, asked), collective=True)


@traffic.register
def _(op: Gather, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Indices to the owners of rows, rows back. A worker asks for a row once, and not for its own."""
    base, index = ins
    owned, asked = base.lengths(mesh), index.counts(mesh)
    rows = sum(min(n, sum(owned) - own) for n, own in zip(asked, owned, strict=True))
    return Traffic("rows by index", rows * (COUNT_BYTES + base.row_bytes), (1, 1))


@exchange_rounds.register
def _(op: Gather, call: CollectiveCall, worker: int, blocks: Parts, index: Parts) -> Exchanging:
    base = call.ins[0]
    assert isinstance(base.layout, Shard)
    axis = base.layout.axis
    wanted = np.concatenate([index[b].ravel() for b in sorted(index)])
    rows, places = distinct(from_front(wanted, base.shape[axis], axis), base.shape[axis])
    asked = yield [[rows[run]] for run in by_owner(call, rows)]
    inbox = yield [[taken(call, blocks, theirs)] for (theirs,) in asked]
    found = np.concatenate([piece for (piece,) in inbox], axis=axis)
    out: Parts = {}
    start = 0
    for b, part in sorted(index.items()):
        mine = np.take(found, places[start : start + part.size], axis=axis)
        out[b] = mine.reshape(*mine.shape[:axis], *part.shape, *mine.shape[axis + 1 :])
        start += part.size
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
