"""argmin and argmax along the axis that is cut. In: blocks. Out: where the best is, of equals the first.

One exchange: what each worker found best of its own elements, and where that is in the whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.engine.talks.talk import ND, Conversation, Parts, Scene, conversation
from tilewise.layout import Shard, blocked
from tilewise.ops.reduce import Arg

Pair = tuple[ND, ND]  # values, positions: the shape of the result


@conversation.register
def _(op: Arg, scene: Scene, worker: int, blocks: Parts) -> Conversation:
    layout, out = scene.ins[0].layout, scene.out
    assert isinstance(layout, Shard)
    found = [_best(op, x, scene, layout, layout.cuts[b]) for b, x in sorted(blocks.items()) if x.size]
    best = _first(op, found) if found else (np.empty(0, scene.ins[0].dtype), np.empty(0, out.dtype))
    parts = [_part(scene, w) if found else ... for w in range(scene.mesh.workers)]
    heard = yield [[best[0][key], best[1][key]] for key in parts]
    lengths = scene.ins[0].lengths(scene.mesh)
    _, where = _first(op, [(piece[0], piece[1]) for w, piece in enumerate(heard) if lengths[w]])
    if not blocked(out.layout):
        return {-1: where}
    assert isinstance(out.layout, Shard)
    axis, low = out.layout.axis, out.layout.cuts[scene.mesh.blocks_of(worker)[0]]
    made: Parts = {}
    for b in scene.mesh.blocks_of(worker):
        first, last = out.layout.owned(b)
        made[b] = where[(*[slice(None)] * axis, slice(first - low, last - low))].copy()
    return made


def _part(scene: Scene, worker: int) -> Any:
    """The index of a worker's part of the result."""
    layout = scene.out.layout
    if not isinstance(layout, Shard):
        return ...
    blocks = scene.mesh.blocks_of(worker)
    return (*[slice(None)] * layout.axis, slice(*layout.owned(blocks[0], blocks[-1])))


def _best(op: Arg, x: ND, scene: Scene, layout: Shard, low: int) -> Pair:
    """The best of a block that begins at `low` of the axis that is cut."""
    where = np.asarray(op.numpy(x))
    if op.axis is not None:
        kept = where if op.keepdims else np.expand_dims(where, op.axis)
        return np.take_along_axis(x, kept, op.axis).reshape(where.shape), where + low
    at = list(np.unravel_index(where, x.shape))
    value = x[tuple(at)]
    at[layout.axis] = at[layout.axis] + low
    return np.asarray(value), np.asarray(np.ravel_multi_index(tuple(at), scene.ins[0].shape))


def _first(op: Arg, pairs: list[Pair]) -> Pair:
    """Of several the best, as NumPy compares (NaN is best of all); of equal ones the first in the whole."""
    values, places = (np.stack(column) for column in zip(*pairs, strict=True))
    best = getattr(np, op.fn)(values, axis=0, keepdims=True)
    top = np.take_along_axis(values, best, 0)
    tied = (values == top) | ((values != values) & (top != top))
    return top[0], np.where(tied, places, np.iinfo(places.dtype).max).min(axis=0)
