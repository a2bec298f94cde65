"""Sorting by several keys. In: vectors, the most important one last. Out: the positions that sort them.

Along the cut axis a sample sort whose splitters are a number of each key. Equal elements meet at one worker, in the
order of their positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Mesh, Shard, even_shard
from tilewise.ops.order.sort import SORT_SAMPLES
from tilewise.ops.recut import EXCHANGES, recut
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
    worker_cuts,
)
from tilewise.ops.traits.rule import Options, Rule, axis_cuts, specific
from tilewise.ops.traits.work import Work, work
from tilewise.records import dataclass


@dataclass(frozen=True)
class Lexsort(Op):
    """np.lexsort of vectors."""

    name = "lexsort"

    def numpy(self, *arrays: Any) -> Any:
        return np.lexsort(arrays)


def lexsort(keys: Sequence[Node]) -> Node:
    """The positions that sort by the last key, among equal ones by the one before, and so on."""
    return intern(Lexsort(), tuple(keys), keys[0].shape, np.dtype(np.intp))


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Lexsort)
def _(op: Lexsort, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    (n,) = node.shape
    if mesh.workers > 1 and n >= 2:
        out = even_shard(0, node.shape, mesh)
        for cuts in axis_cuts([x for layouts in have for x in layouts], 0, n, mesh):
            yield Rule((Shard(0, cuts),) * len(node.inputs), out, collective=True)


@traffic.register(Lexsort)
def _(op: Lexsort, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Samples to the first, splitters to all; keys with positions to ranges; positions to their even cuts."""
    p, n, k = mesh.workers, out.shape[0], len(ins)
    item = sum(x.dtype.itemsize for x in ins)
    few = (p - 1) * (SORT_SAMPLES * p + p - 1) * item + p * (p - 1) * COUNT_BYTES
    moved, again = n * (item + COUNT_BYTES), n * COUNT_BYTES
    expected = few + moved - moved // p
    return Traffic("sample sort", few + moved + again, (k, k, k + 1, 1, 1), expected=expected, evens=EXCHANGES)


@exchange_rounds.register(Lexsort)
def _(op: Lexsort, call: CollectiveCall, worker: int, *keys: Parts) -> Exchanging:
    workers, layout = range(call.mesh.workers), call.ins[0].layout
    assert isinstance(layout, Shard)
    given = [np.concatenate([part[b] for b in sorted(part)]) for part in keys]
    order = np.lexsort(given)
    columns = [*(x[order] for x in given), order + worker_cuts(layout.cuts, call.mesh)[worker]]
    n = min(SORT_SAMPLES * len(workers), order.size)
    at = np.linspace(0, order.size - 1, n).astype(np.intp) if n else order[:0]
    nothing = [x[:0] for x in given]
    inbox = yield [[x[at] for x in columns[:-1]] if w == 0 else nothing for w in workers]
    split = nothing
    if worker == 0:
        pooled = [np.concatenate(parts) for parts in zip(*inbox, strict=True)]
        sample = np.lexsort(pooled)
        split = [x[sample[[sample.size * w // len(workers) for w in workers[1:]]]] for x in pooled]
    inbox = yield [split for _ in workers]
    edges = [0, *(_up_to(columns[:-1], row) for row in zip(*inbox[0], strict=True)), order.size]
    inbox = yield [[x[edges[w] : edges[w + 1]] for x in columns] for w in workers]
    *runs, positions = (np.concatenate(parts) for parts in zip(*inbox, strict=True))
    return (yield from recut(call, worker, positions[np.lexsort(runs)]))


def _up_to(columns: Sequence[ND], row: Sequence[Any]) -> int:
    """How many rows of sorted columns are not after a row: of those equal in one column, the one before decides."""
    low, high = 0, columns[0].size
    for column, value in zip(reversed(columns), reversed(row), strict=True):
        here = column[low:high]
        low, high = low + int(np.searchsorted(here, value)), low + int(np.searchsorted(here, value, "right"))
    return high


@work.register(Lexsort)
def _(op: Lexsort, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(compared=len(shapes) * size * math.log2(max(size, 2)))
