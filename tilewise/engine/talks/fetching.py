"""Selection by an index array along the axis that is cut. In: blocks of base and index. Out: blocks of the selection.

Two exchanges: a worker asks the owners for the rows that it needs (each once), and gets them.
"""

from __future__ import annotations

import numpy as np

from tilewise.engine.talks.owners import by_owner, from_front, taken
from tilewise.engine.talks.talk import ND, Conversation, Parts, Scene, conversation
from tilewise.layout import Shard
from tilewise.ops.index import Gather

DENSE = 2  # rows per index up to which a table of all rows is several times faster than sorting the indices


@conversation.register
def _(op: Gather, scene: Scene, worker: int, blocks: Parts, index: Parts) -> Conversation:
    base = scene.ins[0]
    assert isinstance(base.layout, Shard)
    axis = base.layout.axis
    wanted = np.concatenate([index[b].ravel() for b in sorted(index)])
    rows, places = distinct(from_front(wanted, base.shape[axis], axis), base.shape[axis])
    asked = yield [[rows[run]] for run in by_owner(scene, rows)]
    heard = yield [[taken(scene, blocks, theirs)] for (theirs,) in asked]
    found = np.concatenate([piece for (piece,) in heard], axis=axis)
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
