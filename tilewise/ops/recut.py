"""Runs of unequal length become evenly cut blocks. In: each worker's run of rows, in order. Out: blocks, what moves.

Two exchanges: how long each run is, to all; then rows to the workers whose blocks they belong to.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np

from tilewise.layout import Cuts, Mesh, Shard
from tilewise.ops.traits.collectives import (
    COUNT_BYTES,
    ND,
    CollectiveCall,
    Exchanging,
    Operand,
    Traffic,
    worker_cuts,
)


def recut_traffic(mask: Operand, rows: Operand, mesh: Mesh) -> Traffic:
    """How many rows each worker has, to all; then rows that are not where they belong, one way or the other.

    A cut of the rows moves by as many as are selected before it more, or less, than stand before it in the even cuts.
    A worker selects no more rows than it has. Wherever the cuts are, some worker keeps all that belongs to it: the
    first whose rows reach beyond its own part at both ends.
    """
    p, total = mesh.workers, rows.shape[0]
    have, edges = list(accumulate(mask.counts(mesh), initial=0)), _edges(rows, mesh)
    most = sum(
        max(min(had, total) - at, at - max(total - (have[-1] - had), 0))
        for had, at in zip(have[1:-1], edges[1:-1], strict=True)
    )
    most = min(most, total - min(b - a for a, b in pairwise(edges)))
    few = p * (p - 1) * COUNT_BYTES
    return Traffic("selected rows", few + most * rows.row_bytes, (1, 1), expected=few + most // 2 * rows.row_bytes)


def _edges(rows: Operand, mesh: Mesh) -> Cuts:
    assert isinstance(rows.layout, Shard)
    return worker_cuts(rows.layout.cuts, mesh)


def recut(call: CollectiveCall, worker: int, run: ND) -> Exchanging:
    """The worker's blocks of the runs of all workers, one after the other along the first axis."""
    mesh, layout = call.mesh, call.out.layout
    assert isinstance(layout, Shard) and layout.axis == 0
    inbox = yield [[np.array([len(run)], np.int64)]] * mesh.workers
    ends = list(accumulate((int(count[0]) for (count,) in inbox), initial=0))
    assert ends[-1] == layout.cuts[-1], (ends, layout)
    start, edges = ends[worker], worker_cuts(layout.cuts, mesh)
    inbox = yield [[run[max(edges[w] - start, 0) : max(edges[w + 1] - start, 0)]] for w in range(mesh.workers)]
    mine = np.concatenate([piece for (piece,) in inbox])
    low = edges[worker]
    return {b: mine[layout.cuts[b] - low : layout.cuts[b + 1] - low].copy() for b in mesh.blocks_of(worker)}
