"""Runs of unequal length become evenly cut blocks. In: each worker's run of rows, in order. Out: blocks, what moves.

Two exchanges: how long each run is, to all; then rows to the workers whose blocks they belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from tilewise.layout import Cuts, Mesh, Shard, even_cuts
from tilewise.ops.traits.collectives import (
    COUNT_BYTES,
    ND,
    CollectiveCall,
    Exchanging,
    Operand,
    Traffic,
    worker_cuts,
)


def recut_traffic(mask: Operand, rows: Operand, mesh: Mesh, evens: int = 0) -> Traffic:
    """How many rows each worker has, to all; then rows that are not where they belong, one way or the other.

    A cut of the rows moves by as many as are selected before it more, or less, than stand before it in the even cuts.
    A worker selects no more rows than it has. Wherever the cuts are, some worker keeps all that belongs to it: the
    first whose rows reach beyond its own part at both ends.
    """
    p, row = mesh.workers, rows.row_bytes
    assert isinstance(rows.layout, Shard)
    have = list(accumulate(mask.counts(mesh), initial=0))
    most, few = _moved(have, worker_cuts(rows.layout.cuts, mesh)), p * (p - 1) * COUNT_BYTES
    # As a function of the length, that grows by at most one row for each more: a part of it that grows faster is
    # greater than the length. (Even cuts are rounded, by less than a row each.)
    lengths = range(0, have[-1] + 1, step := max(have[-1] // LENGTHS, 1))
    ever = max(_moved(have, worker_cuts(even_cuts(n, mesh.total_blocks), mesh)) for n in lengths) + step + p
    ever = few + min(ever, have[-1]) * row
    expected = few + most // 2 * row
    return Traffic("selected rows", few + most * row, (1, 1), expected=expected, evens=evens, any_length=ever)


EXCHANGES = 2  # of `recut`: counts, rows


LENGTHS = 32  # that are looked at to say how many rows move at most


def _moved(have: Sequence[int], edges: Cuts) -> int:
    """At most so many rows are not where they belong."""
    total = edges[-1]
    most = sum(
        max(min(had, total) - at, at - max(total - (have[-1] - had), 0))
        for had, at in zip(have[1:-1], edges[1:-1], strict=True)
    )
    return min(most, total - min(b - a for a, b in pairwise(edges)))


def recut(call: CollectiveCall, worker: int, run: ND) -> Exchanging:
    """The worker's blocks of the runs of all workers, one after the other along the first axis."""
    mesh, layout = call.mesh, call.out.layout
    assert isinstance(layout, Shard) and layout.axis == 0
    if call.in_turn:
        return {worker: run}
    inbox = yield [[np.array([len(run)], np.int64)]] * mesh.workers
    ends = list(accumulate((int(count[0]) for (count,) in inbox), initial=0))
    assert ends[-1] == layout.cuts[-1], (ends, layout)
    start, edges = ends[worker], worker_cuts(layout.cuts, mesh)
    inbox = yield [[run[max(edges[w] - start, 0) : max(edges[w + 1] - start, 0)]] for w in range(mesh.workers)]
    mine = np.concatenate([piece for (piece,) in inbox])
    if mesh.blocks == 1:
        return {worker: mine}
    low = edges[worker]
    return {b: mine[layout.cuts[b] - low : layout.cuts[b + 1] - low].copy() for b in mesh.blocks_of(worker)}
