"""Scans along the axis that is cut. In: blocks. Out: the blocks of the scan of the whole.

Every worker tells all later ones what its part comes to; each block is then scanned from what comes before it. So only
what whole blocks come to is reduced in another order than NumPy's.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from tilewise.engine.talks.talk import ND, Conversation, Parts, Scene, conversation
from tilewise.ir.scalar import UFUNCS
from tilewise.ops.reduce import Scan


@conversation.register
def _(op: Scan, scene: Scene, worker: int, blocks: Parts) -> Conversation:
    ufunc, lengths = UFUNCS[op.fn], scene.out.lengths(scene.mesh)
    first: Any = (*[slice(None)] * op.axis, slice(0, 1))
    nothing = blocks[min(blocks)][(*first[:-1], slice(0, 0))]

    def join(a: ND, b: ND) -> ND:
        return ufunc(a, b, dtype=op.dtype)  # type: ignore[no-any-return]

    own = {b: x for b, x in sorted(blocks.items()) if x.shape[op.axis]}
    # From the first element on: a sum that began with 0 would lose the sign of -0.0.
    totals = {b: ufunc.reduce(x, op.axis, op.dtype, keepdims=True, initial=None) for b, x in own.items()}
    total = reduce(join, totals.values()) if own else nothing
    heard = yield [[total if w > worker and lengths[w] else nothing] for w in range(scene.mesh.workers)]
    before = [piece for w, (piece,) in enumerate(heard) if w < worker and lengths[w]]
    offset = reduce(join, before) if before and own else None
    out: Parts = {}
    for b, x in sorted(blocks.items()):
        out[b] = x.astype(op.dtype, order="K")
        if b in own:
            if offset is not None:
                out[b][first] = join(offset, x[first])
            ufunc.accumulate(out[b], axis=op.axis, out=out[b])
            offset = totals[b] if offset is None else join(offset, totals[b])
    return out
