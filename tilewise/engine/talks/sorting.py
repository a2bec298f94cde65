"""Sample sort: blocks that are sorted each become one sorted array. In: sorted blocks. Out: evenly cut sorted blocks.

Four exchanges whose contents depend on data: samples of every worker to all (each then knows the same splitters),
elements to the worker whose range they fall in, how many each then has, and a last recut to the cuts the plan promised.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewise.engine.talks.recut import recut
from tilewise.engine.talks.talk import ND, Conversation, Parts, Scene, conversation
from tilewise.layout import Mesh, Shard
from tilewise.ops.regroup import SORT_SAMPLES
from tilewise.ops.sort import Argsort, Sort


@conversation.register
def _(op: Sort, scene: Scene, worker: int, blocks: Parts) -> Conversation:
    workers = scene.mesh.workers
    values = merged(blocks)
    heard = yield [[samples(values, scene.mesh)]] * workers
    edges = ranges(values, splitters([piece for (piece,) in heard], workers), workers)
    heard = yield [[values[edges[w] : edges[w + 1]]] for w in range(workers)]
    run = np.sort(np.concatenate([piece for (piece,) in heard]), kind="stable")  # merging sorted runs
    return (yield from recut(scene, worker, run))


@conversation.register
def _(op: Argsort, scene: Scene, worker: int, blocks: Parts) -> Conversation:
    """The same with positions. Equal elements meet at one worker, in the order of their positions."""
    workers, layout = scene.mesh.workers, scene.ins[0].layout
    assert isinstance(layout, Shard)
    values = np.concatenate([blocks[b] for b in sorted(blocks)])
    order = np.argsort(values, kind="stable")
    values, positions = values[order], order + layout.cuts[scene.mesh.blocks_of(worker)[0]]
    heard = yield [[samples(values, scene.mesh)]] * workers
    edges = ranges(values, splitters([piece for (piece,) in heard], workers), workers)
    runs = [slice(edges[w], edges[w + 1]) for w in range(workers)]
    heard = yield [[values[run], positions[run]] for run in runs]
    order = np.argsort(np.concatenate([piece[0] for piece in heard]), kind="stable")
    return (yield from recut(scene, worker, np.concatenate([piece[1] for piece in heard])[order]))


def merged(blocks: Parts) -> ND:
    """The sorted blocks of a worker as one sorted array."""
    parts: Sequence[ND] = [blocks[b] for b in sorted(blocks)]
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts), kind="stable")


def samples(values: ND, mesh: Mesh) -> ND:
    """Evenly spaced elements of a sorted array."""
    n = min(SORT_SAMPLES * mesh.workers, values.size)
    return values[np.linspace(0, values.size - 1, n).astype(np.intp)] if n else values[:0]


def splitters(every: Sequence[ND], workers: int) -> ND:
    """Elements that cut the whole into ranges of about equal size; the same on every worker."""
    pooled = np.sort(np.concatenate(every))
    if not pooled.size:
        return pooled
    return pooled[[pooled.size * w // workers for w in range(1, workers)]]


def ranges(values: ND, split: ND, workers: int) -> list[int]:
    """Where the elements of each worker's range begin in a sorted array, and where the last one's end."""
    inner = np.searchsorted(values, split, side="right").tolist() if split.size else [values.size] * (workers - 1)
    return [0, *inner, values.size]
