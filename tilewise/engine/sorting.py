"""Sample sort: blocks that are sorted each become one sorted array. In: sorted blocks. Out: evenly cut sorted blocks.

Four exchanges whose contents depend on data: samples of every worker to all (each then knows the same splitters),
elements to the worker whose range they fall in, how many each then has, and a last recut to the cuts the plan promised.
Their bytes are bounded before (plan/mesh.py) and counted as they arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.layout import Exchange, Mesh, Shard, moves
from tilewise.plan.mesh import SORT_SAMPLES

ND = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Shuffle:
    """One of the four exchanges; `stage` says which. Workers always send to all others, if only an empty piece."""

    stage: int
    pos: int
    target: int
    dst: Shard
    mesh: Mesh
    frees: tuple[int, ...]
    scatter = False

    def between(self, sender: int, receiver: int) -> list[int]:
        """Something goes between any two workers."""
        return [receiver] if sender != receiver else []

    def cut(self, index: int, receiver: int, source: dict[int, ND]) -> ND:
        """What worker `index` sends to another."""
        if self.stage == 0:
            return samples(merged(source), self.mesh)
        if self.stage == 1:
            return _range(source, receiver)
        if self.stage == 2:
            return np.array([source[0].size], np.int64)
        return self._recut(index, receiver, source)

    def join(self, index: int, source: dict[int, ND], arrived: dict[int, ND]) -> dict[int, ND]:
        """What worker `index` has afterwards, from its own part and what came from each other worker."""
        if self.stage == 0:
            source = {0: merged(source)}
        every = [self.cut(index, index, source) if w == index else arrived[w] for w in range(self.mesh.workers)]
        if self.stage == 0:
            return {0: source[0], 1: splitters(every, self.mesh.workers)}
        if self.stage == 1:
            return {0: np.sort(np.concatenate(every), kind="stable")}  # merging sorted runs
        if self.stage == 2:
            return {0: source[0], 1: np.concatenate(every)}
        return self._assemble(index, np.concatenate(every))

    def _exchange(self, sizes: ND) -> Exchange:
        """From what each worker has to what the plan promised."""
        ends = np.cumsum(sizes)
        cuts = [0]
        for w in range(self.mesh.workers):
            cuts += [int(ends[w])] * self.mesh.blocks  # all of it in the worker's first block
        return moves(Shard(0, tuple(cuts)), self.dst, (int(ends[-1]),), self.mesh)

    def _recut(self, sender: int, receiver: int, source: dict[int, ND]) -> ND:
        """The run of the sender's elements that the receiver's blocks take."""
        start = int(source[1][:sender].sum())
        boxes = [
            p.box[0] for p in self._exchange(source[1]).pieces if (p.src_worker, p.dst_worker) == (sender, receiver)
        ]
        return source[0][min(boxes)[0] - start : max(boxes)[1] - start] if boxes else source[0][:0]

    def _assemble(self, index: int, run: ND) -> dict[int, ND]:
        """The worker's elements, in order, as its blocks."""
        out, at = {}, 0
        for b in self.mesh.blocks_of(index):
            lo, hi = self.dst.owned(b)
            out[b] = run[at : at + hi - lo].copy()
            at += hi - lo
        assert at == run.size, (at, run.size)
        return out


def merged(blocks: dict[int, ND]) -> ND:
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


def _range(source: dict[int, ND], worker: int) -> ND:
    """The elements that belong to a worker's range."""
    values, split = source[0], source[1]
    edges = [0, *np.searchsorted(values, split, side="right").tolist(), values.size] if split.size else [0, values.size]
    if worker + 1 >= len(edges):
        return values[:0]
    return values[edges[worker] : edges[worker + 1]]
