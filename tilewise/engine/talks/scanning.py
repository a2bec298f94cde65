"""Scans along the axis that is cut. In: blocks that are scanned each. Out: the scan of the whole.

The last row of a scanned block is what the block comes to. Every worker tells all later ones what its part comes to.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from tilewise.engine.talks.talk import ND, Conversation, Parts, Scene, conversation
from tilewise.ir.scalar import UFUNCS
from tilewise.layout import Shard
from tilewise.ops.reduce import Scan


@conversation.register
def _(op: Scan, scene: Scene, worker: int, blocks: Parts) -> Conversation:
    layout = scene.out.layout
    assert isinstance(layout, Shard)
    lengths = scene.out.lengths(scene.mesh)
    last: Any = (*[slice(None)] * op.axis, slice(-1, None))

    def join(a: ND, b: ND) -> ND:
        return UFUNCS[op.fn](a, b, dtype=op.dtype)  # type: ignore[no-any-return]

    own = {b: blocks[b] for b in sorted(blocks) if blocks[b].shape[op.axis]}
    nothing = blocks[min(blocks)][(*[slice(None)] * op.axis, slice(0, 0))]
    total = reduce(join, (x[last] for x in own.values())) if own else nothing
    later = [lengths[w] > 0 and w > worker for w in range(scene.mesh.workers)]
    heard = yield [[total if told else nothing] for told in later]
    before = [piece for w, (piece,) in enumerate(heard) if w < worker and lengths[w]]
    offset = reduce(join, before) if before and own else None
    out: Parts = {}
    for b, x in sorted(blocks.items()):
        out[b] = x.copy(order="K") if offset is None or b not in own else join(offset, x)
        if b in own:
            offset = x[last] if offset is None else join(offset, x[last])
    return out
