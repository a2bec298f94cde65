"""Runs of unequal length become evenly cut blocks. In: each worker's run of rows, in order. Out: its blocks.

Two exchanges: how long each run is, to all; then rows to the workers whose blocks they belong to.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from tilewise.layout import Shard
from tilewise.ops.traits.collectives import ND, CollectiveCall, Exchanging, worker_cuts


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
