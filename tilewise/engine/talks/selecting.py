"""Selection by a mask over leading axes, the first one cut. In: blocks of base and mask. Out: evenly cut rows.

Each block selects for itself; what workers then have is unequal, and is cut anew (recut.py).
"""

from __future__ import annotations

import numpy as np

from tilewise.engine.talks.recut import recut
from tilewise.engine.talks.talk import Conversation, Parts, Scene, conversation
from tilewise.ops.index import Compress


@conversation.register
def _(op: Compress, scene: Scene, worker: int, blocks: Parts, mask: Parts) -> Conversation:
    run = np.concatenate([op.numpy(blocks[b], mask[b]) for b in sorted(blocks)])
    return (yield from recut(scene, worker, run))
