"""Writing by an index array along the axis that is cut. In: blocks of base, values, index. Out: the base's, written.

At indices, one exchange: they and their values to the owners, who write in the order of the index array (the last one
stays; for `ufunc.at`, all count). Where a mask holds, two: how many rows each worker writes, to all; then the rows.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from tilewise.engine.talks.owners import from_front
from tilewise.engine.talks.talk import ND, Conversation, Parts, Scene, conversation
from tilewise.layout import Shard
from tilewise.ops.index import At, Put
from tilewise.ops.regroup import worker_cuts


@conversation.register(Put)
@conversation.register(At)
def _(op: Put | At, scene: Scene, worker: int, blocks: Parts, *rest: Parts) -> Conversation:
    base, (*given, index) = scene.ins[0], rest
    if scene.ins[-1].dtype == np.bool_:
        return (yield from _where(op, scene, worker, blocks, given[0], index))
    layout = base.layout
    assert isinstance(layout, Shard)
    along = next((x.layout.axis for x in scene.ins[1:-1] if isinstance(x.layout, Shard)), None)
    rows = from_front(_joined(index, 0), base.shape[layout.axis], layout.axis)
    values = _joined(given[0], along) if along is not None else np.empty(0)
    owner = np.searchsorted(worker_cuts(layout.cuts, scene.mesh), rows, side="right") - 1
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(scene.mesh.workers + 1))
    runs = [order[ends[w] : ends[w + 1]] for w in range(scene.mesh.workers)]
    heard = yield [[rows[run], values if along is None else np.take(values, run, axis=along)] for run in runs]
    where = np.concatenate([piece[0] for piece in heard])
    if along is not None:
        values = np.concatenate([piece[1] for piece in heard], axis=along)
    out: Parts = {}
    for b, x in blocks.items():
        low, high = layout.owned(b)
        mine = np.flatnonzero((where >= low) & (where < high))
        out[b] = x.copy(order="K")
        written = [parts[-1] if along is None else np.take(values, mine, axis=along) for parts in given]
        if mine.size:
            op.into(out[b], *written, where[mine] - low)
    return out


def _where(op: Put | At, scene: Scene, worker: int, blocks: Parts, value: Parts, mask: Parts) -> Conversation:
    """The reverse of a selection (recut.py): each worker gets the run of rows that its mask has places for."""
    layout, workers = scene.ins[1].layout, scene.mesh.workers
    assert isinstance(layout, Shard)
    counts = {b: int(np.count_nonzero(m)) for b, m in sorted(mask.items())}
    heard = yield [[np.array([sum(counts.values())], np.int64)]] * workers
    ends = list(accumulate((int(count[0]) for (count,) in heard), initial=0))
    own, low = _joined(value, 0), worker_cuts(layout.cuts, scene.mesh)[worker]
    heard = yield [[own[max(ends[w] - low, 0) : max(ends[w + 1] - low, 0)]] for w in range(workers)]
    rows = np.concatenate([piece for (piece,) in heard])
    out: Parts = {}
    start = 0
    for b, count in counts.items():
        out[b] = blocks[b].copy(order="K")
        op.into(out[b], rows[start : start + count], mask[b])
        start += count
    return out


def _joined(blocks: Parts, axis: int) -> ND:
    """A worker's blocks as one array."""
    return np.concatenate([blocks[b] for b in sorted(blocks)], axis=axis)
