"""A few elements of what sorting would give. In: a vector, their positions. Out: these elements.

No worker sorts more than its own. Each sends a sample to the first, which says between which two values the elements
must lie, and gets what lies between them and how many are before: some square root of what a sort would move.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Cutting, Mesh, Piecewise, Shard, all_at
from tilewise.ops.order.sort import Sort
from tilewise.ops.traits.collectives import (
    COUNT_BYTES,
    ND,
    CollectiveCall,
    Exchanging,
    Operand,
    Parts,
    Traffic,
    exchange_rounds,
    traffic,
)
from tilewise.ops.traits.rule import Options, Rule, axis_cuts, specific
from tilewise.ops.traits.work import Work, work
from tilewise.ops.views import Arrange, Cut, arrange
from tilewise.records import dataclass

FEW = 8  # a part of so many elements, or less of them, is selected; more are sorted


@dataclass(frozen=True)
class Select(Op):
    """np.sort(x)[start::step][:count] of a vector."""

    start: int
    step: int
    count: int
    name = "select"

    def numpy(self, *arrays: Any) -> Any:
        at = self.start + self.step * np.arange(self.count)
        return np.partition(arrays[0], np.unique(at))[at]

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last position in the sorted vector."""
        last = self.start + self.step * (self.count - 1)
        return min(self.start, last), max(self.start, last)


def select(node: Node, start: int, count: int) -> Node:
    """Neighbours in a sorted vector."""
    return intern(Select(start, 1, count), (node,), (count,), node.dtype)


def few_sorted(node: Node) -> Node | None:
    """A part of a sorted vector, as views show it, selected instead; None for anything else, and for large parts."""
    op = node.op
    if isinstance(op, Arrange):
        inner = few_sorted(node.inputs[0])
        return None if inner is None else arrange(inner, op)
    if not isinstance(op, Cut) or node.ndim != 1 or not is_sorted(node.inputs[0]):
        return None
    made = Select(op.starts[0], op.steps[0], op.lengths[0])
    low, high = made.ends
    if made.count == 0 or (high + 1 - low) * FEW > node.inputs[0].dims[0]:
        return None
    return intern(made, node.inputs[0].inputs, node.dims, node.dtype)


def is_sorted(node: Node) -> bool:
    """Whether a node sorts a vector."""
    return type(node.op) is Sort and node.value is None and node.ndim == 1


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Select)
def _(op: Select, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    if mesh.workers > 1:
        out = Shard(0, all_at(0, op.count, mesh.total_blocks))
        even = axis_cuts(have[0], 0, node.inputs[0].shape[0], mesh)
        given: list[Cutting] = [Shard(0, cuts) for cuts in even]
        given += [p for p in have[0] if isinstance(p, Piecewise)]
        yield from (Rule((x,), out, collective=True) for x in given)


def _sampled(length: int, size: int) -> ND:
    """Positions of a sample of a sorted run, its ends included."""
    return (
        np.unique(np.linspace(0, length - 1, min(size, length)).astype(np.int64)) if length else np.empty(0, np.int64)
    )


def _sample_size(length: int, workers: int) -> int:
    return math.isqrt(length // workers) + 2


@traffic.register(Select)
def _(op: Select, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Samples to the first worker, two values to all, counts and what lies between to the first."""
    lengths, item = ins[0].lengths(mesh), out.dtype.itemsize
    size = _sample_size(sum(lengths), mesh.workers)
    samples = sum(len(_sampled(n, size)) for n in lengths[1:])
    apart = sum(max(b - a for a, b in pairwise([0, *_sampled(n, size).tolist()])) for n in lengths if n)
    low, high = op.ends
    between = min(4 * apart + high + 1 - low, sum(lengths[1:]))
    moved = (samples + between + 2 * (mesh.workers - 1)) * item + 2 * COUNT_BYTES * (mesh.workers - 1)
    return Traffic("order statistics", moved, (1, 1, 2), looks=2)


@exchange_rounds.register(Select)
def _(op: Select, call: CollectiveCall, worker: int, blocks: Parts) -> Exchanging:
    def own() -> ND:
        return np.concatenate([blocks[b] for b in sorted(blocks)])

    workers = range(call.mesh.workers)
    mine = np.sort(own(), kind="stable")
    lengths = call.ins[0].lengths(call.mesh)
    size = _sample_size(sum(lengths), call.mesh.workers)
    nothing = mine[:0].copy()
    sample = mine[_sampled(len(mine), size)]
    if call.in_turn:
        del mine
    inbox = yield [[sample if w == 0 else nothing] for w in workers]
    ends = _bracket([piece for (piece,) in inbox], lengths, size, op.ends) if worker == 0 else nothing
    inbox = yield [[ends] for _ in workers]
    low, high = inbox[0][0]
    first, equal, inner = _counted(own(), low, high) if call.in_turn else _found(mine, low, high)
    counts = np.array([first, equal], np.int64)
    inbox = yield [[counts, inner] if w == 0 else [counts[:0], nothing] for w in workers]
    out = {b: nothing for b in call.mesh.blocks_of(worker)}
    if worker == 0:
        before, equal = np.sum([piece[0] for piece in inbox], axis=0).tolist()
        between = np.sort(np.concatenate([piece[1] for piece in inbox]), kind="stable")
        at = op.start + op.step * np.arange(op.count) - before
        # First those that equal the lower value, then what lies between, then the upper value.
        found = np.where(at < equal, low, high)
        among = (at >= equal) & (at < equal + len(between))
        found[among] = between[at[among] - equal]
        out[0] = found.astype(nothing.dtype)
    return out


def _found(mine: ND, low: Any, high: Any) -> tuple[int, int, ND]:
    """Of sorted elements: how many are before a value, how many equal it, and those between it and another."""
    first, after = (int(np.searchsorted(mine, low, side)) for side in ("left", "right"))
    last = max(int(np.searchsorted(mine, high, "left")), after)
    return first, after - first, mine[after:last]


def _counted(mine: ND, low: Any, high: Any) -> tuple[int, int, ND]:
    """The same of elements as they come; NaN is after all others."""
    if mine.dtype.kind not in "biuf":
        return _found(np.sort(mine, kind="stable"), low, high)
    real = mine == mine
    before = real if low != low else mine < low
    equal = ~real if low != low else mine == low
    inner = (real if high != high else mine < high) & ~before & ~equal
    return int(np.count_nonzero(before)), int(np.count_nonzero(equal)), mine[inner]


def _bracket(samples: Sequence[ND], lengths: Sequence[int], size: int, ends: tuple[int, int]) -> ND:
    """Two sampled values, between which (or equal to which) the elements at these positions are."""
    pooled = np.sort(np.concatenate(samples))
    below = np.zeros(len(pooled), np.int64)  # at most so many elements are less than a value
    up_to = np.zeros(len(pooled), np.int64)  # at least so many are not greater
    for sample, n in zip(samples, lengths, strict=True):
        at = np.append(_sampled(n, size), n)
        below += at[np.searchsorted(sample, pooled, "left")]
        up_to += np.append(0, at[:-1] + 1)[np.searchsorted(sample, pooled, "right")]
    low = np.flatnonzero(below <= ends[0])[-1]
    high = np.flatnonzero(up_to > ends[1])[0]
    return pooled[[low, high]]


@work.register(Select)
def _(op: Select, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(compared=shapes[0][0] * math.log2(max(shapes[0][0], 2)))
