"""Sorting. In: a node. Out: the sorted values, or positions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Cutting, Mesh, Shard, even_shard
from tilewise.ops.recut import EXCHANGES, recut
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
from tilewise.ops.traits.rule import LETTERS, Options, Rule, by_letters, specific
from tilewise.ops.traits.work import Work, work
from tilewise.records import dataclass

STABLE = ("stable", "mergesort")
SORT_SAMPLES = 16  # per worker and worker: the ranges of a sample sort then differ by some per cent


@dataclass(frozen=True)
class Sort(Op):
    """np.sort along an axis."""

    axis: int
    kind: str | None
    name = "sort"

    def numpy(self, *arrays: Any) -> Any:
        return np.sort(arrays[0], axis=self.axis, kind=self.kind)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Argsort(Op):
    """np.argsort along an axis."""

    axis: int
    kind: str | None
    name = "argsort"

    def numpy(self, *arrays: Any) -> Any:
        return np.argsort(arrays[0], axis=self.axis, kind=self.kind)  # type: ignore[arg-type]


def sort(node: Node, axis: int, kind: str | None) -> Node:
    """Sorted along an axis."""
    return intern(Sort(axis, kind), (node,), node.shape, node.dtype, node.order)


def argsort(node: Node, axis: int, kind: str | None) -> Node:
    """The permutation that sorts."""
    return intern(Argsort(axis, kind), (node,), node.shape, np.dtype(np.intp))


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Sort)
def _(op: Sort, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    # Of equal elements that differ (zeros with signs, say), a stable sort keeps the order.
    any_order = op.kind not in STABLE or node.dtype.kind in "biu"
    for rule in by_letters([LETTERS[: node.ndim]], LETTERS[: node.ndim], node, have, mesh, pieces=True):
        if isinstance(rule.out, Cutting) and rule.out.axis != op.axis:
            yield rule
        elif (isinstance(rule.out, Shard) or any_order) and node.ndim == 1 and mesh.workers > 1:
            yield Rule(rule.ins, even_shard(0, node.shape, mesh), collective=True)


@specific.register(Argsort)
def _(op: Argsort, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    for rule in by_letters([term], term, node, have, mesh, pieces=True):
        if isinstance(rule.out, Cutting) and rule.out.axis != op.axis:
            yield rule
        elif isinstance(rule.out, Shard) and node.ndim == 1 and mesh.workers > 1 and op.kind in STABLE:
            # Of equal elements, other kinds give the positions in an order that only NumPy's own loops know.
            yield Rule(rule.ins, even_shard(0, node.shape, mesh), collective=True)


@traffic.register(Sort)
def _(op: Sort, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Samples, counts, the elements, and those near the cuts once more."""
    p, length, size = mesh.workers, out.shape[0], out.dtype.itemsize
    few = p * (p - 1) * (min(SORT_SAMPLES * p, length) * size + COUNT_BYTES)
    moved, off = length * size, strayed(ins[0].lengths(mesh), mesh)
    again, most = min((p - 1) * off, length) * size, min(length // p + 2 * off, length) * size
    expected = few + _once(moved, p)
    return Traffic("sample sort", few + moved + again, (1, 1, 1, 1), expected=expected, arriving=most, evens=EXCHANGES)


def _once(moved: int, workers: int) -> int:
    """Elements in no order: each goes to another worker but for one in so many, and hardly any a second time."""
    return moved - moved // workers


@traffic.register(Argsort)
def _(op: Argsort, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Samples, counts, the elements with their positions, and positions near the cuts once more."""
    p, length, size = mesh.workers, out.shape[0], ins[0].dtype.itemsize
    few = p * (p - 1) * (min(SORT_SAMPLES * p, length) * size + COUNT_BYTES)
    both, off = size + out.dtype.itemsize, strayed(ins[0].lengths(mesh), mesh)
    moved, most = length * both, min(length // p + 2 * off, length) * both
    again = min((p - 1) * off, length) * out.dtype.itemsize
    expected = few + _once(moved, p)
    return Traffic("sample sort", few + moved + again, (1, 2, 1, 1), expected=expected, arriving=most, evens=EXCHANGES)


@exchange_rounds.register(Sort)
def _(op: Sort, call: CollectiveCall, worker: int, blocks: Parts) -> Exchanging:
    workers = call.mesh.workers
    values = merged(blocks)
    inbox = yield [[samples(values, call.mesh)]] * workers
    edges = equal_ranges(values, worker, [piece for (piece,) in inbox], call)
    inbox = yield [[values[edges[w] : edges[w + 1]]] for w in range(workers)]
    run = np.concatenate([piece for (piece,) in inbox])
    del inbox, values
    run.sort(kind="stable")  # merging sorted runs
    return (yield from recut(call, worker, run))


@exchange_rounds.register(Argsort)
def _(op: Argsort, call: CollectiveCall, worker: int, blocks: Parts) -> Exchanging:
    """The same with positions. Equal elements meet at one worker, in the order of their positions."""
    workers, layout = call.mesh.workers, call.ins[0].layout
    assert isinstance(layout, Shard)
    values = np.concatenate([blocks[b] for b in sorted(blocks)])
    order = np.argsort(values, kind="stable")
    values, positions = values[order], order + layout.cuts[call.mesh.blocks_of(worker)[0]]
    inbox = yield [[samples(values, call.mesh)]] * workers
    edges = equal_ranges(values, worker, [piece for (piece,) in inbox], call)
    runs = [slice(edges[w], edges[w + 1]) for w in range(workers)]
    inbox = yield [[values[run], positions[run]] for run in runs]
    order = np.argsort(np.concatenate([piece[0] for piece in inbox]), kind="stable")
    return (yield from recut(call, worker, np.concatenate([piece[1] for piece in inbox])[order]))


def merged(blocks: Parts) -> ND:
    """The sorted blocks of a worker as one sorted array."""
    parts: Sequence[ND] = [blocks[b] for b in sorted(blocks)]
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts), kind="stable")


def samples(values: ND, mesh: Mesh) -> ND:
    """Evenly spaced elements of a sorted array."""
    return values[sampled(values.size, mesh)]


def sampled(size: int, mesh: Mesh) -> ND:
    """The positions of a sample."""
    n = min(SORT_SAMPLES * mesh.workers, size)
    return np.linspace(0, size - 1, n).astype(np.intp) if n else np.empty(0, np.intp)


def equal_ranges(values: ND, worker: int, every: Sequence[ND], call: CollectiveCall) -> list[int]:
    """Where the elements of each worker's range begin in this one's sorted array, and where the last one's end.

    The ranges have about equally many elements, whatever these are and whoever has them: an element of a sample stands
    for those up to the next, and equal elements are told apart by who has them, and where.
    """
    mesh, lengths = call.mesh, call.ins[0].lengths(call.mesh)
    at = [sampled(n, mesh) for n in lengths]
    pooled = np.concatenate(every)
    if not pooled.size:
        return [0] * (mesh.workers + 1)
    order = np.argsort(pooled, kind="stable")  # of equal ones in the order of workers, and of positions
    owner = np.repeat(np.arange(mesh.workers), [x.size for x in at])[order]
    place = np.concatenate(at)[order]
    weight = np.repeat([n / max(x.size, 1) for n, x in zip(lengths, at, strict=True)], [x.size for x in at])[order]
    edges = [0]
    for k in np.searchsorted(np.cumsum(weight), sum(lengths) * np.arange(1, mesh.workers) / mesh.workers).tolist():
        k = min(k, pooled.size - 1)
        if worker == owner[k]:
            edges.append(int(place[k]) + 1)
        else:
            before = "right" if worker < owner[k] else "left"
            edges.append(int(np.searchsorted(values, pooled[order[k]], before)))  # type: ignore[call-overload]
    return [*edges, values.size]


def strayed(lengths: Sequence[int], mesh: Mesh) -> int:
    """By how many elements a cut between such ranges is off the even one, at most.

    Of each worker a range is known up to the next element of its sample, and what that stands for.
    """
    most = 0
    for n in lengths:
        count = min(SORT_SAMPLES * mesh.workers, n)
        most += 3 * -(-n // count) + 1 if n > count else count > 0
    return most


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


@work.register(Sort)
@work.register(Argsort)
def _(op: Sort | Argsort, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(compared=size * math.log2(max(shapes[0][op.axis], 2)))
