"""Selected rows of workers whose parts lie between each other's. In: masks of blocks in pieces. Out: evenly cut blocks.

A block of a matrix that both directions of a grid cut has an interval of each row, seen as one line. So what it selects
comes before and after what others select. Two exchanges: how much each worker has selected before the intervals of
every other; then rows, with how many of them are from each interval, to the workers whose blocks they belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from tilewise.layout import Interval, Layout, Mesh, Shard, owned_box, runs
from tilewise.layout.index_set import Held
from tilewise.ops.traits.collectives import (
    COUNT_BYTES,
    ND,
    CollectiveCall,
    Exchanging,
    Operand,
    Parts,
    Traffic,
    worker_cuts,
)
from tilewise.records import dataclass

MAX_INTERVALS = 2048  # of a block: with more, counting takes longer than moving it
WIDTHS = (1, 3)


def intervals(held: Held, shape: Sequence[int]) -> list[Interval] | None:
    """What a block has of the elements in one line, row by row; None if that is too many intervals."""
    found: list[Interval] = [(0, 1)]
    for s, n in zip(held, shape, strict=True):
        inner = runs(s)
        if inner == ((0, n),):
            found = [(low * n, high * n) for low, high in found]
            continue
        if sum(high - low for low, high in found) * len(inner) > MAX_INTERVALS:
            return None
        found = [(k * n + a, k * n + b) for low, high in found for k in range(low, high) for a, b in inner if a < b]
    return [x for x in found if x[0] < x[1]]


@dataclass(frozen=True, eq=False)
class Order:
    """The intervals of all blocks in ascending order: whose each is, and how long."""

    block: ND
    worker: ND
    length: ND
    mine: tuple[ND, ...]  # per worker: which are its own

    def ahead(self, of: int, other: int) -> tuple[ND, ND]:
        """For each interval of a worker, how many of another's come before it; and these numbers, each once, if any."""
        count = np.searchsorted(self.mine[other], self.mine[of])
        return count, np.unique(count[count > 0])


@lru_cache(maxsize=256)
def order_of(layout: Layout, shape: tuple[int, ...], mesh: Mesh) -> Order | None:
    """How the parts of blocks lie between each other; None if they have too many intervals."""
    found: list[tuple[int, int, int]] = []
    for block in range(mesh.total_blocks):
        some = intervals(owned_box(layout, shape, mesh, block=block), shape)
        if some is None:
            return None
        found += [(low, high, block) for low, high in some]
    table = np.array(sorted(found), np.int64).reshape(-1, 3)
    worker = table[:, 2] // mesh.blocks
    mine = tuple(np.flatnonzero(worker == w) for w in range(mesh.workers))
    return Order(table[:, 2], worker, table[:, 1] - table[:, 0], mine)


def _order(mask: Operand, mesh: Mesh) -> Order:
    order = order_of(mask.layout, mask.shape, mesh)
    assert order is not None, "the rules ask for fewer intervals"
    return order


def _kinds(order: Order, total: int) -> tuple[np.dtype[np.unsignedinteger], np.dtype[np.unsignedinteger]]:
    """The smallest types for numbers of all rows, and for those of one interval."""
    most = int(order.length.max(initial=0))
    return np.min_scalar_type(total), np.min_scalar_type(most)


def interleaved_traffic(mask: Operand, rows: Operand, mesh: Mesh) -> Traffic:
    """Numbers of rows before intervals; rows, and of how many intervals they are."""
    p, order, total = mesh.workers, _order(mask, mesh), rows.shape[0]
    of_all, of_one = (kind.itemsize for kind in _kinds(order, total))
    pairs = [(v, w) for v in range(p) for w in range(p) if v != w]
    before = sum(len(order.ahead(v, w)[1]) for v, w in pairs) * of_all
    few = before + (len(order.block) + len(pairs)) * of_one + len(pairs) * COUNT_BYTES
    row = prod(rows.shape[1:]) * rows.dtype.itemsize
    return Traffic("selected rows", few + total * row, WIDTHS, expected=few + (total - total // p) * row)


def interleave(call: CollectiveCall, worker: int, selected: Parts, mask: Parts) -> Exchanging:
    """The worker's blocks of what all have selected."""
    mesh, layout, order = call.mesh, call.out.layout, _order(call.ins[1], call.mesh)
    assert isinstance(layout, Shard) and layout.axis == 0
    of_all, of_one = _kinds(order, layout.cuts[-1])
    mine, edges, workers = order.mine[worker], worker_cuts(layout.cuts, mesh), range(mesh.workers)
    counts, run = _in_order(order, mine, selected, mask)
    ends = np.concatenate([[0], np.cumsum(counts)])
    inbox = yield [[ends[order.ahead(w, worker)[1]].astype(of_all)] for w in workers]
    start = ends[:-1].copy()
    for w, (totals,) in enumerate(inbox):
        if w != worker:
            count, known = order.ahead(worker, w)
            start += np.concatenate([[0], totals.astype(np.int64)])[np.searchsorted(known, count, "right")]
    outbox = []
    for w in workers:
        low, high = edges[w], edges[w + 1]
        first, last = int(np.searchsorted(start + counts, low, "right")), int(np.searchsorted(start, high))
        part = slice(first, max(last, first))
        shown = np.minimum(start[part] + counts[part], high) - np.maximum(start[part], low)
        begin = int(ends[first] + max(low - start[first], 0)) if shown.size else 0
        at = np.array([first] if shown.size else [], np.int64)
        outbox.append([run[begin : begin + int(shown.sum())], shown.astype(of_one), at])
    inbox = yield outbox
    return _joined(call, worker, order, inbox)


def _in_order(order: Order, mine: ND, selected: Parts, mask: Parts) -> tuple[ND, ND]:
    """How many rows each interval of a worker has selected, and all of these rows, in ascending order."""
    counts = np.zeros(len(mine), np.int64)
    source = np.zeros(len(mine), np.int64)  # where the rows of an interval begin among those of all blocks
    before = 0
    for b in sorted(selected):
        here = np.flatnonzero(order.block[mine] == b)
        ends = np.concatenate([[0], np.cumsum(mask[b].reshape(-1), dtype=np.int64)])
        edges = ends[np.concatenate([[0], np.cumsum(order.length[mine[here]])])]
        counts[here], source[here] = np.diff(edges), edges[:-1] + before
        before += len(selected[b])
    rows = np.concatenate([selected[b] for b in sorted(selected)])
    return counts, rows if len(selected) == 1 else rows[_places(source, counts)]


def _places(start: ND, counts: ND) -> ND:
    """The indices of runs that begin somewhere, one run after the other."""
    ends = np.cumsum(counts)
    return np.repeat(start - (ends - counts), counts) + np.arange(ends[-1] if ends.size else 0)


def _joined(call: CollectiveCall, worker: int, order: Order, inbox: Sequence[Sequence[ND]]) -> Parts:
    """The blocks of a worker, from rows of all workers."""
    layout = call.out.layout
    assert isinstance(layout, Shard)
    which = np.concatenate(
        [order.mine[w][at[0] : at[0] + len(c)] if at.size else at for w, (_, c, at) in enumerate(inbox)]
    )
    counts = np.concatenate([c.astype(np.int64) for _, c, _ in inbox])
    begin = np.cumsum(counts) - counts
    sort = np.argsort(which, kind="stable")
    mine = np.concatenate([rows for rows, _, _ in inbox])[_places(begin[sort], counts[sort])]
    blocks = call.mesh.blocks_of(worker)
    low = layout.cuts[blocks[0]]
    return {b: mine[layout.cuts[b] - low : layout.cuts[b + 1] - low].copy() for b in blocks}
