"""Running reductions along an axis. In: a node. Out: one of the same shape. Blocks exchange what they come to."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.reductions import splits
from tilewise.ir.scalar import UFUNCS
from tilewise.kernel.native_support import supports_scan
from tilewise.layout import Cutting, Mesh, Piecewise, Shard, Union, length, runs
from tilewise.ops.elementwise import cast, walked
from tilewise.ops.traits.batch import Rolled, batch
from tilewise.ops.traits.collectives import (
    ND,
    CollectiveCall,
    Exchanging,
    Operand,
    Parts,
    Traffic,
    exchange_rounds,
    traffic,
)
from tilewise.ops.traits.lower import accumulates, reduced_axes
from tilewise.ops.traits.rule import LETTERS, Options, Rule, by_letters, specific
from tilewise.records import dataclass


@dataclass(frozen=True)
class Scan(Op):
    """`ufunc.accumulate` along an axis."""

    fn: str
    axis: int
    dtype: np.dtype[Any]
    name = "scan"

    @property
    def signature(self) -> Any:
        return self

    def numpy(self, *arrays: Any) -> Any:
        return UFUNCS[self.fn].accumulate(arrays[0], axis=self.axis, dtype=self.dtype)

    def label(self) -> str:
        return f"{self.fn}.accumulate[{self.axis}]"


def scan(node: Node, fn: str, axis: int, dtype: np.dtype[Any]) -> Node:
    """Running reduction along an axis."""
    return intern(Scan(fn, axis, dtype), (cast(node, dtype),), node.shape, dtype, walked(node))


@specific.register(Scan)
def _(op: Scan, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    joins = splits(op.fn) and (node.dtype == np.bool_ or not op.fn.startswith("logical"))
    for rule in by_letters([term], term, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis != op.axis:
            yield rule
        elif joins and mesh.workers > 1:
            yield Rule(rule.ins, rule.out, collective=True)
    for p in have[0]:
        if isinstance(p, Piecewise) and (p.axis != op.axis or (joins and mesh.workers > 1 and _in_turn(p, mesh))):
            yield Rule((p,), p, collective=p.axis == op.axis)


def _in_turn(p: Piecewise, mesh: Mesh) -> bool:
    """Whether each worker has one interval, of one interval for each block: a flip of plain cuts."""
    plain = not any(isinstance(s, Union) for s in p.sets)
    return plain and not any(
        isinstance(p.owned(blocks[0], blocks[-1]), Union) for blocks in map(mesh.blocks_of, range(mesh.workers))
    )


def _sequence(call: CollectiveCall) -> tuple[list[int], list[int]]:
    """Workers and blocks in the order of what they own."""
    layout, mesh = call.out.layout, call.mesh
    assert isinstance(layout, Cutting)
    blocks = sorted(range(mesh.total_blocks), key=lambda b: (runs(layout.owned(b))[0][0], b))
    full = [b for b in blocks if length(layout.owned(b))]
    return list(dict.fromkeys([*(mesh.worker_of(b) for b in full), *range(mesh.workers)])), blocks


@traffic.register(Scan)
def _(op: Scan, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """What each worker's part comes to, to every later one that has a part."""
    parts = sum(n > 0 for n in out.lengths(mesh))
    return Traffic("totals of a scan", parts * (parts - 1) // 2 * out.row_bytes, (1,), exact=True)


@exchange_rounds.register(Scan)
def _(op: Scan, call: CollectiveCall, worker: int, blocks: Parts) -> Exchanging:
    ufunc, lengths = UFUNCS[op.fn], call.out.lengths(call.mesh)
    first: Any = (*[slice(None)] * op.axis, slice(0, 1))
    nothing = blocks[min(blocks)][(*first[:-1], slice(0, 0))]

    def join(a: ND, b: ND) -> ND:
        return ufunc(a, b, dtype=op.dtype)  # type: ignore[no-any-return]

    workers, in_order = _sequence(call)
    rank = {w: k for k, w in enumerate(workers)}
    own = {b: blocks[b] for b in in_order if b in blocks and blocks[b].shape[op.axis]}
    # From the first element on: a sum that began with 0 would lose the sign of -0.0.
    totals = {b: ufunc.reduce(x, op.axis, op.dtype, keepdims=True, initial=None) for b, x in own.items()}
    total = functools.reduce(join, totals.values()) if own else nothing
    inbox = yield [[total if rank[w] > rank[worker] and lengths[w] else nothing] for w in range(call.mesh.workers)]
    before = [inbox[w][0] for w in workers[: rank[worker]] if lengths[w]]
    offset = functools.reduce(join, before) if before and own else None
    out: Parts = {}
    for b in (b for b in in_order if b in blocks):
        x = blocks[b]
        out[b] = x.astype(op.dtype, order="K")
        if b in own:
            if offset is not None:
                out[b][first] = join(offset, x[first])
            ufunc.accumulate(out[b], axis=op.axis, out=out[b])
            offset = totals[b] if offset is None else join(offset, totals[b])
    return out


@batch.register(Scan)
def _(op: Scan, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    return scan(ins[0].node, op.fn, op.axis + (not last), op.dtype)


@reduced_axes.register(Scan)
def _(op: Scan, node: Node) -> tuple[int, ...]:
    return (op.axis,)


@accumulates.register(Scan)
def _(op: Scan, node: Node) -> bool:
    return node.inputs[0].dtype.isnative and supports_scan(op.fn, op.dtype.name)
